"""Are repeated requests answered faster than new ones while a server is busy? Asked of both arms.

A memo pays under load, so it is looked for there: asked one request at a time, a candidate could
tell that it is looked at. New requests and their repeats are mixed, each under an id of its own,
with as many on their way as in a timed block; every answer is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from layers.errors import ToolFailed
from layers.evidence import Gate, GateResult
from layers.measure.fresh import write_set
from layers.measure.launch import ARMS, Arm, Bench, DoesNotServe, Launch
from layers.measure.load import LoadResult
from layers.traffic.envelope import addressed
from layers.trial.equivalence import Unsent
from layers.trial.memory_probe import ROUNDS, Timings, of_rounds

Verify: TypeAlias = Callable[[LoadResult, LoadResult], None]  # of the baseline, the candidate
Row: TypeAlias = Sequence[bytes]  # a new request, and its repeats


class MemoryProbe:
    """The memory gate of one launch."""

    def __init__(self, bench: Bench, launch: Launch, rng: np.random.Generator) -> None:
        """Use the running arms of `launch`; `rng` must not be one that can be foreseen."""
        self._bench, self._launch, self._rng = bench, launch, rng
        self._rounds: list[Timings] = []

    def gate(self, unsent: Unsent, wanted: int, verify: Verify) -> Gate:
        """Ask `wanted` new requests a round, until it is decided; `verify` compares all answers.

        Raises DoesNotServe where the candidate fails requests, ToolFailed where the baseline does.
        """
        found = of_rounds(self._rounds, wanted)
        for _ in range(ROUNDS if wanted else 0):
            rows = unsent.rows(wanted)
            if rows:
                self._rounds.append(self._asked(rows, verify))
            found = of_rounds(self._rounds, wanted)
            if not rows or found.result is not GateResult.INCONCLUSIVE:
                break
        return found

    def _asked(self, rows: Sequence[Row], verify: Verify) -> Timings:
        """Return the times of requests and repeats, sent in random order, each before its repeats."""
        shape = (len(rows), len(rows[0]))
        places = np.sort(self._rng.permutation(shape[0] * shape[1]).reshape(shape), axis=1)
        messages = [b""] * places.size
        for row, where in zip(rows, places.tolist(), strict=True):
            for message, place in zip(row, where, strict=True):
                messages[place] = addressed(message, self._rng)
        results = self._answered(messages)
        taken_s = {arm: _taken_s(results[arm]) for arm in ARMS}
        timings = Timings()
        for where in places.tolist():
            timings.add({arm: taken_s[arm][where].tolist() for arm in ARMS})
        verify(results["baseline"], results["candidate"])
        return timings

    def _answered(self, messages: Sequence[bytes]) -> dict[Arm, LoadResult]:
        """Send the messages to each arm, in random order of arms."""
        bench = self._bench
        results: dict[Arm, LoadResult] = {}
        order = np.arange(len(messages), dtype=np.int64)
        bench.log_dir.mkdir(parents=True, exist_ok=True)
        with write_set(bench.log_dir / "memory.bin", messages) as requests:
            for arm in ARMS if self._rng.random() < 0.5 else ARMS[::-1]:
                served, in_flight = self._launch.arm(arm), bench.manifest.traffic.in_flight
                with self._launch.blaming(arm), self._launch.alone(arm):
                    result = bench.load.closed(served.grpc, order, in_flight, requests=requests)
                    served.alive()
                _refuse_errors(arm, result)
                results[arm] = result
        return results


def _taken_s(result: LoadResult) -> NDArray[np.float64]:
    """Return the seconds from send to answer, in the order of sending."""
    taken_s: NDArray[np.float64] = result.records["done_s"] - result.records["sent_s"]
    return taken_s


def _refuse_errors(arm: Arm, result: LoadResult) -> None:
    """Blame an arm that did not answer a new request or a repeat."""
    if not result.errors:
        return
    told = f"{result.errors} of {len(result.records)} requests failed: {'; '.join(result.messages)}"
    if arm == "baseline":
        raise ToolFailed(f"the baseline broke under load: {told}")
    raise DoesNotServe(f"the candidate broke under load: {told}", reason="errors_under_load")
