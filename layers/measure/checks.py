"""When a block of load says nothing, and which percentiles it may print. Pure.

A void block decides nothing: it is measured again or counted, never averaged in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

# Name, quantile and the least number of requests for it, n >= 10 / (1 - q), in whole numbers.
PERCENTILES = (
    ("p50", 0.5, 20),
    ("p90", 0.9, 100),
    ("p95", 0.95, 200),
    ("p99", 0.99, 1_000),
    ("p99.9", 0.999, 10_000),
)


class VoidReason(StrEnum):
    """Reason codes, in the order in which the first is chosen.

    Faults of the machine lead: a block that names errors had a quiet machine, so they are the
    stack's.
    """

    NOISY_NEIGHBOUR = "noisy_neighbour"
    MEMORY_PRESSURE = "memory_pressure"  # seen in a pair, not in a block: `conduct.void_arms`
    GENERATOR_BOUND = "generator_bound"
    LATE_SENDS = "late_sends"
    ERRORS = "errors"
    SHORT_OUTPUTS = "short_outputs"
    TOO_FEW_REQUESTS = "too_few_requests"
    BEHIND_OFFERED = "behind_offered"


# Reasons that lie with the machine, not with the stack: measuring again may cure them.
ENVIRONMENT = frozenset(
    {
        VoidReason.NOISY_NEIGHBOUR,
        VoidReason.MEMORY_PRESSURE,
        VoidReason.GENERATOR_BOUND,
        VoidReason.LATE_SENDS,
    }
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a block turns void.

    `lag_share`: a send's delay p99 may be this share of the SLO. The delay is inside the latency,
    which counts from the schedule, so it hides nothing; beyond 5 % the generator is what is
    measured. `lag_floor_ms` is about twice what an idle machine's timers and gevent allow.
    At fixed in-flight load the last requests run with fewer beside them: of `min_requests` = 60 at
    4 in flight that is about (4 - 1) / 2 / 60 = 2.5 % of the time, in both arms alike.
    """

    min_requests: int = 60
    achieved_share: float = 0.99
    lag_share: float = 0.05
    lag_floor_ms: float = 2.5
    generator_cores: float = 0.8  # it has one thread of Python: at 1 core it throttles
    neighbour_cores: float = 0.2

    def lag_ms(self, slo_ms: float) -> float:
        """Return the largest p99 of the send delay that a block may have at this SLO."""
        return max(self.lag_floor_ms, self.lag_share * slo_ms)


@dataclass(frozen=True, slots=True)
class BlockFacts:
    """What the rules look at. Open loop has an SLO, a lag and an achieved share; work has none."""

    requests: int
    errors: int
    short_outputs: int
    generator_cores: float
    neighbour_cores: float
    slo_ms: float | None = None
    lag_p99_ms: float | None = None
    achieved_share: float | None = None  # see `achieved_share`


@dataclass(frozen=True, slots=True)
class Void:
    """One broken rule: what was seen and what the limit is, in the rule's own unit."""

    reason: VoidReason
    seen: float
    limit: float

    def __str__(self) -> str:
        """Return one line for a log."""
        return f"{self.reason}: {self.seen:.4g}, limit {self.limit:.4g}"


def voids(facts: BlockFacts, limits: Limits) -> list[Void]:
    """Return every rule that the block breaks, in the order of VoidReason; empty for a good block."""
    return list(_broken(facts, limits))


def _broken(facts: BlockFacts, limits: Limits) -> Iterator[Void]:
    """Yield the broken rules in the order of VoidReason."""
    if facts.neighbour_cores > limits.neighbour_cores:
        yield Void(VoidReason.NOISY_NEIGHBOUR, facts.neighbour_cores, limits.neighbour_cores)
    if facts.generator_cores > limits.generator_cores:
        yield Void(VoidReason.GENERATOR_BOUND, facts.generator_cores, limits.generator_cores)
    if facts.lag_p99_ms is not None and facts.slo_ms is not None:
        limit_ms = limits.lag_ms(facts.slo_ms)
        if facts.lag_p99_ms > limit_ms:
            yield Void(VoidReason.LATE_SENDS, facts.lag_p99_ms, limit_ms)
    if facts.errors:
        yield Void(VoidReason.ERRORS, facts.errors, 0)
    if facts.short_outputs:
        yield Void(VoidReason.SHORT_OUTPUTS, facts.short_outputs, 0)
    if facts.requests < limits.min_requests:
        yield Void(VoidReason.TOO_FEW_REQUESTS, facts.requests, limits.min_requests)
    if facts.achieved_share is not None and facts.achieved_share < limits.achieved_share:
        yield Void(VoidReason.BEHIND_OFFERED, facts.achieved_share, limits.achieved_share)


def achieved_share(
    scheduled_s: NDArray[np.float64], done_s: NDArray[np.float64], slo_ms: float
) -> float:
    """Return achieved over offered rate of an open-loop block, 0 to 1.

    Both over one time base: of the requests offered, the share answered before the last scheduled
    send plus the SLO. Dividing by the time to the last completion instead would charge a block of
    a few seconds for the latency of its last request. `done_s` holds answered requests only.
    """
    if len(scheduled_s) == 0:
        return 0.0
    end_s = scheduled_s.max() + slo_ms / 1e3
    return float(np.count_nonzero(done_s <= end_s) / len(scheduled_s))


def percentiles(latencies_ms: NDArray[np.float64]) -> dict[str, float]:
    """Return the percentiles in ms that this many latencies support: n >= 10 / (1 - q)."""
    return {
        name: float(np.quantile(latencies_ms, quantile))
        for name, quantile, least in PERCENTILES
        if len(latencies_ms) >= least
    }
