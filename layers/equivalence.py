"""What both arms answered, side by side, for the correctness gates.

Two sources: requests that the parent sends one at a time (recorded and mutated, fresh in every
trial), and every answer of every timed block, so that what is timed is what is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from layers.errors import ToolFailed
from layers.evidence import Gate, GateResult
from layers.gates.referee import Referee
from layers.measure.launch import Launch
from layers.measure.load import LoadResult
from layers.traffic import Traffic, decode, decode_response
from layers.triton.client import Client, Refused

Tensors: TypeAlias = Mapping[str, NDArray[np.generic]]
Compared: TypeAlias = tuple[Tensors, Tensors, Tensors | None]

RECORDED = 160  # requests of the recording that a trial sends one at a time
MUTATED = 60  # and mutated ones
REFEREED = 24  # of the recorded ones, how many the float64 referee answers too
INFER_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """An arm's answer that is no response."""

    code: str


def probes(traffic: Traffic, rng: np.random.Generator) -> tuple[list[bytes], list[bytes]]:
    """Draw a trial's recorded and mutated requests, after the candidate was written."""
    count = min(RECORDED, len(traffic.requests))
    chosen = rng.choice(len(traffic.requests), size=count, replace=False)
    recorded = [traffic.requests[int(index)] for index in chosen]
    return recorded, traffic.mutated(int(rng.integers(1 << 31)), MUTATED)


class Sequential:
    """Both arms' answers to requests sent one at a time; refusals are compared by their code."""

    def __init__(self, launch: Launch, referee: Referee | None) -> None:
        """Use the running arms of `launch`; `referee` answers the first requests too."""
        self._launch = launch
        self._referee = referee
        self.refusals = 0
        self.refused_differently = 0

    def answers(self, requests: Sequence[bytes], *, refereed: int = 0) -> Iterator[Compared]:
        """Yield (baseline, candidate, referee or None) for each request that both arms answer."""
        with (
            Client(self._launch.arm("baseline").grpc) as baseline,
            Client(self._launch.arm("candidate").grpc) as candidate,
        ):
            for number, request in enumerate(requests):
                old, new = _ask(baseline, request), _ask(candidate, request)
                if isinstance(old, Refusal) or isinstance(new, Refusal):
                    self.refusals += 1
                    self.refused_differently += old != new
                    continue
                truth = None
                if self._referee is not None and number < refereed:
                    truth = self._referee.answer(decode(request))
                yield old, new, truth

    def gate(self) -> Gate:
        """Return whether both arms refused the same requests, with the same code."""
        same = self.refused_differently == 0
        return Gate(
            name="refusals",
            result=GateResult.PASS if same else GateResult.FAIL,
            reason="refusals_identical" if same else "refusals_differ",
            detail=f"{self.refusals} requests refused by an arm, "
            f"{self.refused_differently} of them not alike",
        )


def _ask(client: Client, request: bytes) -> Tensors | Refusal:
    """Return the arm's outputs, or what it refused with."""
    try:
        return decode_response(client.infer(request, INFER_TIMEOUT_S))
    except Refused as error:
        return Refusal(error.code)


def timed(baseline: LoadResult, candidate: LoadResult) -> Iterator[Compared]:
    """Yield both arms' outputs of every request of a pair of timed blocks."""
    positions = {int(index): i for i, index in enumerate(candidate.records["index"])}
    for i, index in enumerate(baseline.records["index"]):
        other = positions.get(int(index))
        if other is None:
            raise ToolFailed(f"request {int(index)} was sent to one arm of a pair only")
        yield (
            decode_response(baseline.response(i)),
            decode_response(candidate.response(other)),
            None,
        )
