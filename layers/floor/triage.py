"""What to do with a measured step: nothing, overlap, a profiler, or doubt. A pure decision that says why.

Floor-First Triage (2026): a measurement inside [t_opt, t_sum] reads out how well resources overlap before any
profiler is opened; under a stop threshold only architecture changes help; profilers are for residuals alone.
The paper does not say which floor its 1.3 divides by; here it is t_opt. The median diagnoses the residual, the
99th percentile validates the SLO: queueing lies outside the resource floor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from layers.floor.account import Quantity
from layers.floor.floors import Floor, Times, overlap_quality, times
from layers.floor.walls import COMPUTE, KV, NETWORK, WEIGHTS, bound

Action: TypeAlias = Literal[
    "suspect", "stop", "overlap", "nsight_systems", "repair", "nsight_compute"
]

METRIC = {"hbm": "MBU", "compute": "MFU", "network": "link utilisation"}
LEVERS: dict[str, tuple[str, ...]] = {
    WEIGHTS: (
        "weights of fewer bits (FP8, FP4)",
        "more sequences or tokens a step for the same read (larger batch, speculative decoding)",
        "weights spread over more devices (wider tensor or expert parallelism)",
    ),
    KV: (
        "attention that reads less (sparse, sliding window, latent)",
        "a cache of fewer bits (FP8)",
        "no cache twice under tensor parallelism (attention by request, context parallelism)",
    ),
    COMPUTE: (
        "arithmetic of fewer bits (FP8, FP4)",
        "less of it a token (fewer active experts, sparse attention)",
        "more devices a token (tensor parallelism instead of attention by request)",
    ),
    NETWORK: (
        "a layout with fewer or shorter trips (within a node, fewer collectives a layer)",
        "fewer bytes a message (FP8 dispatch)",
        "links or collectives of less latency",
    ),
}
GAPS = "gaps between kernels: the host launches too late, or synchronises"
EXPOSED = "exposed communication: collectives beside nothing, or waiting for a straggler"
CLASSES = "which kernel class exceeds its budget"
QUESTIONS = (f"{GAPS}?", f"{EXPOSED}?", f"{CLASSES}?")


@dataclass(frozen=True, slots=True)
class Limit:
    """How long a good implementation takes, given the floor: `factor` times it and a fixed time.

    The fixed time stands for what no floor accounts for: launches, ramps, synchronisation.
    """

    factor: float
    source: str
    fixed_s: float = 0.0
    below: str = "near the limit of"  # what it means to be under it, of a resource

    def of(self, floor_s: float) -> float:
        """Return the seconds below which there is little to gain."""
        return self.factor * floor_s + self.fixed_s

    def __str__(self) -> str:
        """Return `1.3 (who says so)`."""
        fixed = f" and {seconds(self.fixed_s)}" if self.fixed_s else ""
        return f"{self.factor:.3g} times{fixed} ({self.source})"


PAPER = Limit(1.3, "the paper's flat threshold")


@dataclass(frozen=True, slots=True)
class Timeline:
    """What Nsight Systems showed of one step, in seconds of the slowest device."""

    gaps_s: float = 0.0  # in which no kernel ran
    exposed_s: float = 0.0  # in which only communication ran
    kernels_s: Mapping[str, float] = field(default_factory=dict)  # by part of the model


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do next, and why."""

    action: Action
    reason: str
    residual: float  # measured over t_opt
    limit: Limit
    quality: float | None  # of overlap: 1 at t_opt, 0 at t_sum; None outside
    metric: str  # that fits the binding resource
    utilisation: float  # by it
    advice: tuple[str, ...] = ()  # what to change, or what to look for


@dataclass(frozen=True, slots=True)
class Service:
    """Whether an SLO on the time of a step is kept, and why."""

    verdict: Literal["out of reach", "missed", "held", "not shown"]
    reason: str


def triage(
    found: Floor,
    measured_s: float,
    limit: Limit = PAPER,
    *,
    timeline: Timeline | None = None,
    budgets: Mapping[str, Limit] | None = None,
) -> Decision:
    """Return what a measured median step time (seconds) asks for.

    `timeline` answers the questions that a first decision sent to Nsight Systems; `budgets` are limits of
    single parts, `limit` holds for the others.
    """
    whole = found.times
    opt, together = float(whole.t_opt_s), float(whole.t_sum_s)
    action, reason, advice = _placed(found, measured_s, limit)
    if action == "nsight_systems" and timeline is not None:
        action, reason, advice = _escalated(found, measured_s - together, timeline, limit, budgets)
    return Decision(
        action,
        reason,
        measured_s / opt,
        limit,
        overlap_quality(measured_s, whole) if opt <= measured_s <= together else None,
        METRIC[whole.binding],
        float(whole.apart_s[whole.binding]) / measured_s,
        advice,
    )


def combined(found: Floor, limits: Mapping[str, Limit], otherwise: Limit = PAPER) -> Limit:
    """Return the limit of a step from those of its parts: factors by their share of time, fixed times summed."""
    if not limits:
        return otherwise
    spent = {name: float(_floor_s(found, name)) for name in found.parts}
    used = {name: limits.get(name, otherwise) for name in spent}
    allowed = sum(used[name].factor * busy for name, busy in spent.items())
    whole = sum(spent.values())
    sources = dict.fromkeys(used[name].source for name in spent if spent[name] > whole / 100)
    fixed_s = sum(limit.fixed_s for limit in used.values())
    below = next(iter(limits.values())).below
    return Limit(allowed / whole, " and ".join(sources), fixed_s, below)


def service(
    found: Floor, slo_s: float, *, p50_s: float | None = None, p99_s: float | None = None
) -> Service:
    """Return whether the step time's 99th percentile keeps an SLO; all in seconds."""
    opt = float(found.times.t_opt_s)
    if slo_s < opt:
        reason = f"t_opt is {seconds(opt)}, above the SLO of {seconds(slo_s)}: no tuning gets there"
        return Service("out of reach", reason)
    if p99_s is None:
        return Service("not shown", "a median validates no SLO: measure P99 under open-loop load")
    said = f"P99 is {seconds(p99_s)}, the SLO {seconds(slo_s)}"
    if p99_s <= slo_s:
        return Service("held", said)
    if p50_s is not None and p50_s <= slo_s:
        tail = "queueing, stragglers or preemption, which no floor accounts for"
        return Service("missed", f"{said}, the median keeps it: the tail is {tail}")
    return Service("missed", said)


def seconds(value: float) -> str:
    """Return a time with its unit and three digits: `21.4 ms`."""
    units = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6))
    unit, size = next((one for one in units if value >= 0.9995 * one[1]), ("ns", 1e-9))
    return f"{value / size:.3g} {unit}"


def _placed(found: Floor, measured_s: float, limit: Limit) -> tuple[Action, str, tuple[str, ...]]:
    """Return action, reason and advice by where the measurement lies."""
    whole = found.times
    opt, together = float(whole.t_opt_s), float(whole.t_sum_s)
    took = f"{seconds(measured_s)} is {measured_s / opt:.3g} times t_opt ({seconds(opt)})"
    if measured_s < opt:
        return "suspect", f"{took}: nothing is faster than its floor", _doubts(found)
    resource = bound(found)
    if measured_s < limit.of(opt):
        near = f"{took}, under {limit}: {limit.below} {_words(resource)}"
        return "stop", f"{near}, only architecture changes help", LEVERS[resource]
    if measured_s <= together:
        return "overlap", *_overlap(whole, measured_s, took)
    lost = seconds(measured_s - together)
    reason = f"{took}, above t_sum ({seconds(together)}): no resource accounts for {lost}"
    return "nsight_systems", f"{reason}; three questions only", QUESTIONS


def _overlap(whole: Times, measured_s: float, took: str) -> tuple[str, tuple[str, ...]]:
    """Return reason and advice between stop and t_sum."""
    quality = overlap_quality(measured_s, whole) or 0.0
    busy = {"HBM" if name == "hbm" else name: busy for name, busy in whole.apart_s.items()}
    longest, second = sorted(busy, key=lambda name: -float(busy[name]))[:2]
    reason = (
        f"{took}, within t_sum ({seconds(float(whole.t_sum_s))}): overlap quality {quality:.2f}"
    )
    gain = seconds(measured_s - float(whole.t_opt_s))
    return f"{reason}, {gain} to gain by overlap before any kernel", (_beside(longest, second),)


def _beside(longest: str, second: str) -> str:
    if "network" in (longest, second):
        other = second if longest == "network" else longest
        return f"run communication beside {other}: two half batches in turn, or a fused collective"
    return (
        "run arithmetic beside reads: deeper prefetch, fused kernels, independent parts in streams"
    )


def _escalated(
    found: Floor,
    excess_s: float,
    timeline: Timeline,
    limit: Limit,
    budgets: Mapping[str, Limit] | None,
) -> tuple[Action, str, tuple[str, ...]]:
    """Return what the timeline of a step above t_sum asks for: the kernel profiler comes last."""
    # t_sum holds all communication as exposed already: what is beyond it waits for somebody.
    waits = max(0.0, timeline.exposed_s - float(found.times.network_s))
    if timeline.gaps_s + waits >= excess_s / 2:
        gaps_first = timeline.gaps_s >= waits
        share = timeline.gaps_s if gaps_first else waits
        name = GAPS if gaps_first else EXPOSED
        reason = f"{seconds(share)} of the {seconds(excess_s)} above t_sum: {name}"
        return "repair", f"{reason}; no kernel profiler helps", _remedies(gaps_first=gaps_first)
    if not timeline.kernels_s:
        told = seconds(timeline.gaps_s + waits) if timeline.gaps_s + waits else "none"
        reason = f"gaps and waiting explain {told} of the {seconds(excess_s)} above t_sum"
        return "nsight_systems", f"{reason}; one question is left", (QUESTIONS[-1],)
    over = _over_budget(found, timeline, limit, budgets or {})
    if not over:
        reason = f"no gaps, no waiting, no kernel class over its budget explain {seconds(excess_s)}"
        return "suspect", f"{reason} above t_sum", _doubts(found)
    name, spent_s, budget_s = over[0]
    reason = f"gaps and communication excluded; {name} takes {seconds(spent_s)}, its budget is"
    named = tuple(f"{part}: {seconds(spent)} of {seconds(most)}" for part, spent, most in over)
    return (
        "nsight_compute",
        f"{reason} {seconds(budget_s)}: open Nsight Compute for it alone",
        named,
    )


def _over_budget(
    found: Floor, timeline: Timeline, limit: Limit, budgets: Mapping[str, Limit]
) -> list[tuple[str, float, float]]:
    """Return the parts that took more than their budget, with both times, the worst first."""
    over = []
    for name, spent_s in timeline.kernels_s.items():
        own = budgets.get(name) or Limit(limit.factor, limit.source)
        budget_s = own.of(float(_floor_s(found, name)))
        if spent_s > budget_s:
            over.append((name, spent_s, budget_s))
    return sorted(over, key=lambda row: row[2] - row[1])


def _floor_s(found: Floor, part: str) -> Quantity:
    return times(found.parts[part], found.place.hardware).t_opt_s


def _remedies(*, gaps_first: bool) -> tuple[str, ...]:
    if gaps_first:
        return (
            "capture the step as a CUDA graph",
            "schedule and sample without waiting for the device",
        )
    return (
        "even out the devices: expert replicas, batches of like length",
        "give collectives work to run beside",
    )


def _doubts(found: Floor) -> tuple[str, ...]:
    """Return what may be wrong where a floor and a measurement cannot both be right."""
    card = found.place.hardware.name
    return (
        "account: fewer bytes or operations than declared (precision, context, batch, drafts, experts)",
        f"constant: the card {card} states less than the device has",
        "measurement: not one step, not this load, or a clock read before the device was done",
    )


def _words(resource: str) -> str:
    return {WEIGHTS: "HBM (weight reads)", KV: "HBM (cache reads)"}.get(resource, resource)
