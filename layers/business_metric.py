"""The business metric of both arms, request by request: what decides an approximate change.

A manifest opts in by naming the metric and how much its mean may fall. The metric runs like the
referee, in a process of its own, from the baseline's files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from layers.evidence import Gate, GateResult
from layers.gates.metric import non_inferior
from layers.gates.referee import Referee
from layers.manifest import CorrectnessSection
from layers.traffic import decode

LEAST_REQUESTS = 200

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

    def gate(self, margin: float) -> Gate:
        """Return the gate `metric`; undecided below 200 requests. See `metric.non_inferior`."""
        if len(self.baseline) < LEAST_REQUESTS:
            detail = f"{len(self.baseline)} requests, {LEAST_REQUESTS} are needed"
            return Gate(
                name="metric",
                result=GateResult.INCONCLUSIVE,
                reason="too_few_requests",
                detail=detail,
            )
        return non_inferior(self.baseline, self.candidate, margin).gate


def opted_in(section: CorrectnessSection) -> bool:
    """Whether the manifest allows approximate changes."""
    return section.metric is not None and section.approximate_margin is not None
