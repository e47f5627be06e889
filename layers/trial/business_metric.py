"""The business metric of both arms, request by request: what decides an approximate change.

A manifest opts in by naming the metric and how much its mean may fall. The metric runs like the
referee, in a process of its own, from the baseline's files. Two sets of answers are held to it:
those to requests sent one at a time, and a sample of those given under load, which are what is
timed. The sample is drawn anew for every block, so a candidate cannot know which answers count.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from layers.evidence import Gate, GateResult
from layers.gates.metric import non_inferior
from layers.gates.referee import Referee
from layers.manifest import CorrectnessSection
from layers.measure.fresh import Fresh, RequestSet
from layers.measure.load import LoadResult
from layers.traffic.recorded import Traffic, decode
from layers.traffic.salting import Salter

LEAST_REQUESTS = 200
PER_PAIR = 30  # answers of a timed pair that are scored
PER_SEGMENT = 100  # answers of a segment of recorded traffic that are scored
KEPT_SETS = (
    16  # request sets: a segment is scored after the last one, and void ones are drawn again
)

Tensors = Mapping[str, NDArray[Any]]


@dataclass(slots=True)
class Values:
    """The metric of both arms, paired by request."""

    process: Referee  # in its mode for metrics
    baseline: list[float] = field(default_factory=list)
    candidate: list[float] = field(default_factory=list)

    def observe(self, request: bytes, old: Tensors, new: Tensors) -> None:
        """Take in one request that both arms answered."""
        inputs = decode(request)
        self.baseline.append(self._value(inputs, old))
        self.candidate.append(self._value(inputs, new))

    def _value(self, inputs: Tensors, outputs: Tensors) -> float:
        return float(self.process.answer(inputs, outputs)["metric"])

    def gate(self, margin: float, name: str = "metric") -> Gate:
        """Return the gate `name`; undecided below 200 requests. See `metric.non_inferior`."""
        if len(self.baseline) < LEAST_REQUESTS:
            return Gate(
                name=name,
                result=GateResult.INCONCLUSIVE,
                reason="too_few_answers",
                detail=f"{len(self.baseline)} requests, {LEAST_REQUESTS} are needed",
            )
        gate = non_inferior(self.baseline, self.candidate, margin).gate
        return gate.model_copy(update={"name": name})


class Remembering(Fresh):
    """Fresh requests of which a sample can be looked up after the block that sent them."""

    def __init__(self, salter: Salter, folder: Path) -> None:
        """Keep nothing until `keeps` is set: only metric and referee need the inputs again."""
        super().__init__(salter, folder)
        self._samples = np.random.default_rng(secrets.randbits(128))
        self._kept: dict[str, dict[int, bytes]] = {}
        self.keeps = False

    def draw(self, order: NDArray[np.int64]) -> RequestSet:
        """Draw a request set, as `Fresh` does, and keep a sample of its messages."""
        drawn = super().draw(order)
        if self.keeps:
            places = self._samples.permutation(len(drawn)).tolist()
            chosen = [place for place in places if place not in drawn.odd][:PER_SEGMENT]
            with drawn.path.open("rb") as file:
                self._kept[drawn.digest] = {i: _message(file, drawn, i) for i in chosen}
            for digest in list(self._kept)[:-KEPT_SETS]:
                del self._kept[digest]
        return drawn

    def sample(self, digest: str) -> dict[int, bytes]:
        """Return what was kept of a request set, by position in it; {} of one that is not known."""
        return self._kept.get(digest, {})

    def forget(self) -> None:
        """Keep nothing any more, and drop what was kept."""
        self.keeps = False
        self._kept.clear()


def _message(file: BinaryIO, drawn: RequestSet, position: int) -> bytes:
    offset, length = drawn.spans[position].tolist()
    file.seek(offset)
    return file.read(length)


@dataclass(slots=True)
class UnderLoad:
    """The metric of answers that were given under load: what is timed is what is scored."""

    values: Values
    fresh: Fresh | None  # whose requests the blocks send; None: the recording's
    traffic: Traffic
    rng: np.random.Generator = field(
        default_factory=lambda: np.random.default_rng(secrets.randbits(128))
    )

    def score(
        self,
        baseline: LoadResult,
        candidate: LoadResult,
        outputs: Callable[[bytes], Tensors],
        most: int,
    ) -> None:
        """Score up to `most` answers of two blocks over the same requests, position by position.

        `outputs` decodes a response. Nothing is timed meanwhile.
        """
        drawn = sent(baseline, self.fresh, self.traffic, self.rng)
        for position, request in islice(drawn, most):
            old, new = (outputs(r.response(position)) for r in (baseline, candidate))
            self.values.observe(request, old, new)


def sent(
    block: LoadResult, fresh: Fresh | None, traffic: Traffic, rng: np.random.Generator
) -> Iterator[tuple[int, bytes]]:
    """Yield positions of a block in random order, each with what was sent there, as far as kept.

    `fresh` has the requests that blocks send; None: they send the recording.
    """
    index = block.records["index"].tolist()
    positions = rng.permutation(len(index)).tolist()
    if block.request_set == traffic.digest:
        yield from ((p, traffic.requests[index[p]]) for p in positions)
        return
    kept = fresh.sample(block.request_set) if isinstance(fresh, Remembering) else {}
    yield from ((p, kept[index[p]]) for p in positions if index[p] in kept)


@contextmanager
def remembered(fresh: Fresh | None) -> Iterator[None]:
    """Keep a sample of what blocks send for as long as this lasts; nothing stays kept."""
    if not isinstance(fresh, Remembering):
        yield
        return
    fresh.keeps = True
    try:
        yield
    finally:
        fresh.forget()


@contextmanager
def scoring(
    metric: AbstractContextManager[Referee], fresh: Fresh | None, traffic: Traffic
) -> Iterator[UnderLoad]:
    """Open the metric for a whole trial; it idles while blocks are timed. Nothing stays kept."""
    with metric as process, remembered(fresh):
        yield UnderLoad(Values(process), fresh, traffic)


def opted_in(section: CorrectnessSection) -> bool:
    """Whether the manifest allows approximate changes."""
    return section.metric is not None and section.approximate_margin is not None
