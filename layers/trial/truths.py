"""What the float64 referee says of a trial's requests: those sent one at a time, and timed ones.

A candidate may be right for the requests of a probe and less so for those of a block, so a random
sample of every timed pair is refereed too, after it was timed. The errors of all of them are judged
together. A changed request may be none that the referee can answer: it is left out, and counted.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from types import TracebackType
from typing import Self

import numpy as np

from layers.base import ChangeClass
from layers.errors import ToolFailed
from layers.evidence import OutputRow
from layers.gates.correctness import Errors, Outputs, refereed
from layers.gates.referee import Referee
from layers.gates.tensors import is_finite
from layers.measure.fresh import Fresh
from layers.measure.load import LoadResult
from layers.traffic.recorded import Traffic, decode
from layers.trial.business_metric import remembered, sent

SHARE = 0.01  # of the time that a pair of blocks took, for answers to some of its requests
MOST = 30  # of a pair
LEAST_S = 1e-4  # an answer takes no less
MOST_FAILED = 3  # changed requests that the referee may fail on before it is asked no more of them
MOVING = (ChangeClass.REORDER, ChangeClass.CONFIG)  # classes that are held to the referee


class Truths:
    """The referee of one trial, as a context manager; it idles while blocks are timed."""

    def __init__(
        self,
        opened: Callable[[], Referee],
        fresh: Fresh | None,
        traffic: Traffic,
        change_class: ChangeClass,
    ) -> None:
        """Prepare; `opened` makes a referee that is not yet started, `fresh` has what blocks send."""
        self.errors: dict[str, Errors] = {}  # by output, of all that was asked
        self._opened, self._fresh, self._traffic = opened, fresh, traffic
        self._timed = change_class in MOVING
        self._rng = np.random.default_rng(secrets.randbits(128))
        self._undo = ExitStack()
        self._process: Referee | None = None
        self._asked = 0
        self._took_s = 0.0
        self._failed = 0
        self._may_s = 0.0  # what the referee may take, of the time that blocks took
        self._first = True

    def __enter__(self) -> Self:
        """Start the referee. Raises InvalidInput or ToolFailed where it cannot be."""
        with ExitStack() as undo:
            if self._timed:
                undo.enter_context(remembered(self._fresh))
            undo.callback(self._close)
            self._running()
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it."""
        self._undo.close()

    def of(self, request: bytes, answer: Outputs, *, recorded: bool) -> Outputs | None:
        """Return the float64 outputs of a request; `answer` is the baseline's.

        None of a changed request that the referee cannot answer in that form. Raises ToolFailed
        where it fails on a recorded one.
        """
        if not recorded and self._failed >= MOST_FAILED:
            return None
        started = time.monotonic()
        try:
            found = self._running().answer(decode(request))
        except ToolFailed:
            self._close()
            if recorded:
                raise
            self._failed += 1
            return None
        finally:
            self._took_s += time.monotonic() - started
            self._asked += 1
        if recorded or _fits(found, answer):
            return found
        self._failed += 1
        return None

    def joined(
        self,
        answers: Iterator[tuple[Outputs, Outputs, Outputs | None]],
        baseline: LoadResult,
        candidate: LoadResult,
    ) -> Iterator[tuple[Outputs, Outputs, Outputs | None]]:
        """Yield the answers of two timed blocks, position by position, some with the referee's."""
        chosen = self._chosen(baseline, baseline.wall_s + candidate.wall_s)
        recorded = baseline.request_set == self._traffic.digest
        before_s = self._took_s
        for position, (old, new, truth) in enumerate(answers):
            request = chosen.get(position)
            if request is not None and old and new:
                truth = self.of(request, old, recorded=recorded)
            yield old, new, truth
        self._may_s -= self._took_s - before_s

    def _chosen(self, block: LoadResult, spent_s: float) -> dict[int, bytes]:
        """Draw what is refereed of a block: as much as the time allows, and one of the first block.

        Time that is not enough for an answer is left to the blocks that follow.
        """
        if not self._timed:
            return {}
        each_s = max(self._took_s / self._asked if self._asked else spent_s, LEAST_S)
        self._may_s += SHARE * spent_s
        count = min(MOST, max(int(self._first), int(self._may_s / each_s)))
        chosen = dict(islice(sent(block, self._fresh, self._traffic, self._rng), count))
        self._first = self._first and not chosen
        return chosen

    def completed(self, rows: list[OutputRow]) -> list[OutputRow]:
        """Return the equivalence table with the errors of all that was asked since."""
        return refereed(rows, self.errors)

    def warning(self) -> str | None:
        """Say that changed requests could not be refereed, None where all could."""
        if not self._failed:
            return None
        stopped = "; no more were asked" if self._failed >= MOST_FAILED else ""
        return f"changed requests that the referee could not answer: {self._failed}{stopped}"

    def _running(self) -> Referee:
        """Return the process, started again where it has failed."""
        if self._process is None:
            self._process = self._opened().__enter__()
        return self._process

    def _close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.close()


def _fits(found: Outputs, answer: Outputs) -> bool:
    """Whether outputs are finite float64, of the names and shapes of an answer."""
    return all(
        name in answer
        and values.shape == answer[name].shape
        and (answer[name].dtype.kind != "f" or (values.dtype == np.float64 and is_finite(values)))
        for name, values in found.items()
    )
