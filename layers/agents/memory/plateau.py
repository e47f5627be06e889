"""When it no longer pays to ask agents further: by the measured noise, no fixed share. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, sqrt

from layers.agents.memory.backlog import kind_of
from layers.base import COOKBOOK
from layers.evidence import Iteration, NoiseFloor
from layers.findings import gain_of

PATIENCE = 3  # candidates in a row
LAST_LOOK = 8  # launches: what `layers.measure.boundaries.LookPlan` goes up to
_MEASURED = frozenset({"done", "design", "undecided"})


def plateau(
    iterations: Sequence[Iteration], noise: NoiseFloor, patience: int = PATIENCE
) -> str | None:
    """Say, with the numbers, that the last agents' candidates gained nothing that could be told.

    Of the last `patience` whose gain was measured none was accepted, and none may by the upper end
    of its 95 % interval be above what the last look resolves. Candidates with a bug and failures of
    a tool say nothing about what is left to gain, and are passed over. None where there are fewer.
    """
    measured = list(_measured(iterations))[-patience:]
    least = resolvable_ratio(noise)
    if len(measured) < patience or any(_promising(one, upper, least) for one, upper in measured):
        return None
    told = ", ".join(f"{one.card} at most {upper:.4f}" for one, upper in measured)
    return (
        f"plateau: the last {patience} candidates that could be measured gained nothing above the "
        f"noise, by the upper ends of their intervals: {told} times; after {LAST_LOOK} launches "
        f"{least:.4f} times is the least that can be told (noise {noise.floor_pct:.2f} %)"
    )


def resolvable_ratio(noise: NoiseFloor) -> float:
    """Return the least throughput ratio that the last look can tell from none."""
    least_gain = noise.floor_pct / 100 / sqrt(LAST_LOOK)
    return 1 / (1 - least_gain) if least_gain < 1 else inf


def _measured(iterations: Sequence[Iteration]) -> Iterator[tuple[Iteration, float]]:
    """Yield the agents' candidates whose gain is known, each with its interval's upper end."""
    for one in iterations:
        ci = gain_of(one)[1]
        if one.hypothesis.proposer != COOKBOOK and ci is not None and kind_of(one) in _MEASURED:
            yield one, ci[1]


def _promising(one: Iteration, upper: float, least: float) -> bool:
    return kind_of(one) == "done" or upper > least
