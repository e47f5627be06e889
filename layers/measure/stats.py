"""Statistics of a gain: noise floor, looks with boundaries, intervals. Pure; no I/O, no clock.

The effect is the log of the throughput ratio, candidate over baseline. A launch starts both arms
afresh and shifts all its pairs together, so pair j of launch i is modelled as
`effect + launch_i + pair_ij`, and the mean of n launches with m pairs each has the variance
`(launch_sd^2 + pair_sd^2 / m) / n`. "Percent" of a log ratio is 100 times the log ratio.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.polynomial.legendre import leggauss
from scipy import optimize, stats

from layers.evidence import Look, NoiseFloor, Pair
from layers.measure.intervals import (
    Estimate,
    around,
    bootstrap_quantile_ratio,
    commit_gate,
    difference_of_shares_ci,
    ratio_between,
    ratio_ci,
)

__all__ = [
    "Estimate",
    "LookPlan",
    "LookRule",
    "bootstrap_quantile_ratio",
    "by_launch",
    "clears",
    "commit_gate",
    "confirm",
    "could_win",
    "difference_of_shares_ci",
    "launch_floor",
    "launch_variance",
    "look",
    "noise_floor",
    "obrien_fleming",
    "ratio_between",
    "ratio_ci",
    "resolvable",
    "unmeasured_noise",
]

Floats: TypeAlias = npt.NDArray[np.float64]
Launches: TypeAlias = Sequence[Sequence[float]]  # log ratios of the pairs, one sequence a launch
Decision: TypeAlias = Literal["accept", "reject", "continue", "inconclusive"]

UNMEASURED_FLOOR_PCT = 6.0  # the published end-to-end floor, used until this run has its own
# Few launches say little about how much launches differ. Until they do, a launch shift of half a
# percent is assumed, weighing as much as four launches; `layers.measure.simulate` is the proof
# that this keeps the promised rate of false accepts for launch shifts up to one percent.
LEAST_LAUNCH_SD = 0.005
ASSUMED_LAUNCHES = 4
POWER = 0.9  # of the gains that `resolvable` lists
DRAWS = 10_000  # simulated looks behind each of them


# --- boundaries -------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def obrien_fleming(alpha: float, fractions: tuple[float, ...]) -> tuple[float, ...]:
    """Return the one-sided z boundary of each look: c / sqrt(fraction), crossed with rate alpha.

    `fractions` are the shares of all information at each look, increasing to 1. The constant c
    solves P(some look crosses | no effect) = alpha (O'Brien and Fleming, Biometrics 35, 1979), by
    the recursive integration of Armitage, McPherson and Rowe (J. R. Stat. Soc. A 132, 1969).
    Raises ValueError for an alpha outside (0, 0.5) or fractions that do not increase to 1.
    """
    steps = np.diff(np.array([0.0, *fractions]))
    if not 0 < alpha < 0.5 or not fractions or steps.min() <= 0 or fractions[-1] != 1:
        raise ValueError("alpha must lie in (0, 0.5) and fractions increase to 1")
    least = float(stats.norm.isf(alpha))
    most = float(stats.norm.isf(alpha / len(fractions)) + 1.0)
    constant = optimize.brentq(
        lambda c: _crossing(c, steps) - alpha, least - 1e-9, most, xtol=1e-10
    )
    return tuple(float(constant / np.sqrt(fraction)) for fraction in fractions)


def _crossing(level: float, steps: Floats) -> float:
    """Return P(Brownian motion, seen after each time step, is ever above a constant level).

    In the scale of Brownian motion, z times sqrt(fraction), the boundary is one constant.
    """
    nodes, weights = _quadrature()
    lowest = -8.0  # the motion has variance 1 at the end: what lies below weighs 1e-15
    x = lowest + (level - lowest) * (nodes + 1) / 2
    weights = weights * (level - lowest) / 2
    crossed = float(stats.norm.sf(level, scale=np.sqrt(steps[0])))
    density = stats.norm.pdf(x, scale=np.sqrt(steps[0]))
    for step in np.sqrt(steps[1:]):
        mass = weights * density
        crossed += float((mass * stats.norm.sf((level - x) / step)).sum())
        kernel = np.exp(-(((x[:, None] - x) / step) ** 2) / 2) / (step * np.sqrt(2 * np.pi))
        density = (kernel * mass).sum(axis=1)  # no BLAS: its threads spin on a busy machine
    return crossed


@lru_cache(maxsize=1)
def _quadrature() -> tuple[Floats, Floats]:
    """Return nodes and weights on [-1, 1]; exact to 1e-9 for steps of 1 % of the information."""
    nodes, weights = leggauss(192)
    return nodes, weights


@dataclass(frozen=True, slots=True)
class LookRule:
    """What one look asks, given how many launches the noise rests on."""

    k: int
    last: int  # launches at the last look
    boundary: float  # for z, at this look
    last_boundary: float
    t95: float  # Student quantile of the 95 % interval


@dataclass(frozen=True, slots=True)
class LookPlan:
    """When a candidate is looked at, and what a false accept may cost.

    `alpha_run` is the one-sided rate of false accepts in a whole run; each of the `candidates`
    that the run allows gets an equal part of it.
    """

    candidates: int
    alpha_run: float = 0.005
    looks: tuple[int, ...] = (1, 2, 4, 8)
    pairs_per_launch: int = 4

    @property
    def fractions(self) -> tuple[float, ...]:
        """Share of all information at each look."""
        return tuple(k / self.looks[-1] for k in self.looks)

    def rule(self, k: int, noise_launches: int) -> LookRule:
        """Return the rule at k launches; raises ValueError where no look is planned."""
        if k not in self.looks:
            raise ValueError(f"no look is planned after {k} launches, only after {self.looks}")
        last = self.looks[-1]
        freedom = _launch_freedom(k, noise_launches)
        t95 = float(stats.t.isf(0.025, freedom))
        return LookRule(
            k, last, self.boundary(k, noise_launches), self.boundary(last, noise_launches), t95
        )

    def boundary(self, k: int, noise_launches: int) -> float:
        """Return the boundary for z at k launches.

        O'Brien-Fleming assumes a known variance. Ours is estimated, so the boundary is never below
        the Student quantile at this look's share of alpha, shared out by information gained: the
        shares add up to alpha, so by the union bound the rate holds whatever the first rule does.
        """
        index = self.looks.index(k)
        alpha = self.alpha_run / self.candidates
        share = self.fractions[index] - (self.fractions[index - 1] if index else 0.0)
        student = stats.t.isf(alpha * share, _launch_freedom(k, noise_launches))
        return max(obrien_fleming(alpha, self.fractions)[index], float(student))


def _launch_freedom(k: int, noise_launches: int) -> int:
    """Degrees of freedom of the launch variance: k - 1, one per A/A launch, and the assumed ones.

    An A/A launch gives a whole one because its true mean is known: no difference.
    """
    return ASSUMED_LAUNCHES + noise_launches + k - 1


# --- noise ------------------------------------------------------------------------------------


def by_launch(pairs: Iterable[Pair], *, cpu: bool = False) -> list[list[float]]:
    """Group pairs by launch, in order of launch, as log throughput (or CPU) ratios."""
    launches: defaultdict[int, list[float]] = defaultdict(list)
    for pair in pairs:
        launches[pair.launch].append(
            float(np.log(pair.cpu_ratio if cpu else pair.throughput_ratio))
        )
    return [launches[launch] for launch in sorted(launches)]


def unmeasured_noise() -> NoiseFloor:
    """Return the noise to assume before any A/A pair: the published 6 %, all of it between pairs."""
    pair_sd_pct = UNMEASURED_FLOOR_PCT / float(stats.norm.isf(0.025)) * 2  # mean of four pairs
    return NoiseFloor(floor_pct=UNMEASURED_FLOOR_PCT, pair_sd_pct=pair_sd_pct, pairs=0, launches=0)


def noise_floor(launches: Launches, earlier: NoiseFloor | None = None) -> NoiseFloor:
    """Return the noise floor from A/A log ratios by launch; any measure, any pairs per launch.

    floor_pct is e, the 95 % half-width of the A/A difference at the base look (one launch of the
    pairs seen here): t * sqrt(launch_sd^2 + pair_sd^2 / m). t is Student's quantile with the
    degrees of freedom of pair_sd; launch_sd comes from the launch means, whose true mean is known
    to be zero, and is never taken below `LEAST_LAUNCH_SD`, as one or two launches cannot show it.
    The largest A/A difference that was seen, and the floor measured `earlier`, rule where larger.
    The published 6 % stands for a floor that is not measured; it bounds no measured one.
    Raises ValueError without two pairs in one launch, or for a value that is not finite.
    """
    means, within, freedom, inverse = _moments(launches)
    if freedom == 0:
        raise ValueError("a noise floor needs at least two pairs in one launch")
    between = max(0.0, float(np.mean(means**2)) - within * inverse)
    floor_pct = 100 * float(launch_floor(means, np.array(within), inverse, freedom))
    if earlier is not None and earlier.pairs:
        floor_pct = max(floor_pct, earlier.floor_pct)
    return NoiseFloor(
        floor_pct=floor_pct,
        pair_sd_pct=100 * float(np.sqrt(within)),
        launch_sd_pct=100 * float(np.sqrt(between)) if len(launches) > 1 else None,
        pairs=freedom + len(launches),
        launches=len(launches),
        median_pct=100 * float(np.median(np.concatenate([np.asarray(x) for x in launches]))),
        launch_differences_pct=[100 * float(mean) for mean in means],
    )


def launch_floor(means: Floats, within: Floats, inverse: float, freedom: int) -> Floats:
    """Return e as a log ratio, by the rule of `noise_floor`; the launches are the last axis."""
    between = np.mean(means**2, axis=-1) - within * inverse
    unit = np.maximum(between, LEAST_LAUNCH_SD**2) + within * inverse
    half_width = float(stats.t.isf(0.025, freedom)) * np.sqrt(unit)
    return np.asarray(np.maximum(half_width, np.abs(means).max(axis=-1)), dtype=np.float64)


def _moments(launches: Launches) -> tuple[Floats, float, int, float]:
    """Return launch means, variance within launches, its degrees of freedom, mean of 1/pairs."""
    arrays = [np.asarray(launch, dtype=np.float64) for launch in launches]
    if not arrays or any(a.size == 0 or not np.isfinite(a).all() for a in arrays):
        raise ValueError("every launch needs at least one pair, and every log ratio must be finite")
    means = np.array([a.mean() for a in arrays])
    squares = sum(float(((a - a.mean()) ** 2).sum()) for a in arrays)
    freedom = sum(a.size - 1 for a in arrays)
    within = squares / freedom if freedom else 0.0
    return means, within, freedom, float(np.mean([1 / a.size for a in arrays]))


# --- looks ------------------------------------------------------------------------------------


def launch_variance(launch_square: Floats, within: Floats, inverse: float) -> Floats:
    """Return the variance of one launch's mean: what launch means show, or the assumed least.

    `launch_square` is the mean square of launch means about their expectation, `within` the
    variance of pairs, `inverse` the mean of 1/pairs per launch; arrays of one shape.
    """
    return np.maximum(launch_square, LEAST_LAUNCH_SD**2 + within * inverse)


def clears(estimate: Floats, se: Floats, floor: Floats, rule: LookRule) -> npt.NDArray[np.bool_]:
    """Whether log ratios `estimate` lie above the noise at this look and above its boundary.

    `floor` is e as a fraction; the gain 1 - 1/ratio must exceed e / sqrt(k).
    """
    above_floor = -np.expm1(-estimate) > floor / np.sqrt(rule.k)
    return np.asarray(above_floor & (estimate >= rule.boundary * se), dtype=np.bool_)


def could_win(estimate: Floats, se: Floats, floor: Floats, rule: LookRule) -> npt.NDArray[np.bool_]:
    """Whether the upper end of the 95 % interval would be accepted at the last look."""
    upper = estimate + rule.t95 * se
    last_se = se * np.sqrt(rule.k / rule.last)
    above_floor = -np.expm1(-upper) > floor / np.sqrt(rule.last)
    return np.asarray(above_floor & (upper >= rule.last_boundary * last_se), dtype=np.bool_)


def look(launches: Launches, noise: NoiseFloor, plan: LookPlan) -> Look:
    """Judge all launches of a candidate so far: log ratios of its pairs, by launch.

    The estimate is the mean of the launch means. Its standard error takes, for the pairs, the
    larger of what they show and what A/A and they show together (a candidate may be noisier than
    the baseline); for the launches what A/A and they show together, or the assumed least.
    Reasons: gain_above_noise; in_remeasuring_band;
    slower, below_noise_floor, boundary_out_of_reach (cannot win any more);
    last_look_reached (could have been a gain, looks are used up).
    Raises ValueError for a number of launches at which no look is planned.
    """
    means, within, freedom, inverse = _moments(launches)
    k = len(launches)
    noise_means = np.array(noise.launch_differences_pct) / 100
    rule = plan.rule(k, len(noise_means))
    noise_within, noise_freedom = (noise.pair_sd_pct / 100) ** 2, noise.pairs - noise.launches
    total = freedom + noise_freedom
    pooled = (freedom * within + noise_freedom * noise_within) / total if total else 0.0
    squares = float((noise_means**2).sum() + ((means - means.mean()) ** 2).sum())
    launch_square = squares / max(1, len(noise_means) + k - 1)
    unit = launch_variance(np.array(launch_square), np.array(max(pooled, within)), inverse)
    estimate, se = means.mean(), np.sqrt(unit / k)
    decision, reason = _decide(estimate, se, np.array(noise.floor_pct / 100), rule)
    half = rule.t95 * se
    return Look(
        k=k,
        pairs=freedom + k,
        estimate=float(np.exp(estimate)),
        ci=(float(np.exp(estimate - half)), float(np.exp(estimate + half))),
        gain=float(-np.expm1(-estimate)),
        floor=noise.floor_pct / 100 / float(np.sqrt(k)),
        z=float(estimate / se),
        boundary=rule.boundary,
        decision=decision,
        reason=reason,
    )


def _decide(estimate: Floats, se: Floats, floor: Floats, rule: LookRule) -> tuple[Decision, str]:
    """Return the decision and its reason code for one candidate."""
    if clears(estimate, se, floor, rule):
        return "accept", "gain_above_noise"
    if could_win(estimate, se, floor, rule):
        if rule.k < rule.last:
            return "continue", "in_remeasuring_band"
        return "inconclusive", "last_look_reached"
    if estimate + rule.t95 * se < 0:
        return "reject", "slower"
    if -np.expm1(-estimate) <= floor / np.sqrt(rule.last):
        return "reject", "below_noise_floor"
    return "reject", "boundary_out_of_reach"


def resolvable(
    noise: NoiseFloor, plan: LookPlan, seconds_per_launch: float
) -> list[tuple[float, int, float]]:
    """Return (gain, launches, minutes) per look: the least gain that nine in ten times clears it.

    From simulated looks (seeded) at a stack whose noise is what A/A showed.
    """
    within = (noise.pair_sd_pct / 100) ** 2
    between = (noise.launch_sd_pct or 0.0) / 100
    unit = max(between, LEAST_LAUNCH_SD) ** 2 + within / plan.pairs_per_launch
    launches, pairs = len(noise.launch_differences_pct), noise.pairs - noise.launches
    rng = np.random.default_rng(0)
    rows = []
    for k in plan.looks:
        own_freedom = k * (plan.pairs_per_launch - 1)
        own = within * rng.chisquare(own_freedom, DRAWS) / own_freedom
        others = within * rng.chisquare(pairs, DRAWS) if pairs else np.zeros(DRAWS)
        pooled = (own * own_freedom + others) / (own_freedom + pairs)
        freedom = launches + k - 1
        square = unit * rng.chisquare(freedom, DRAWS) / freedom if freedom else np.zeros(DRAWS)
        found = launch_variance(square, np.maximum(own, pooled), 1 / plan.pairs_per_launch)
        floor = -np.log1p(-min(0.99, noise.floor_pct / 100 / np.sqrt(k)))
        asked = np.maximum(plan.boundary(k, launches) * np.sqrt(found / k), floor)
        needed = np.quantile(asked - rng.normal(0, np.sqrt(unit / k), DRAWS), POWER)
        rows.append((float(-np.expm1(-needed)), k, k * seconds_per_launch / 60))
    return rows


def confirm(log_ratios: Sequence[float], noise: NoiseFloor | None = None) -> Estimate:
    """Return the gain to print: the ratio of fresh pairs of one launch, with its 95 % interval.

    Student's interval of the pairs' log ratios. One launch cannot show its own shift, so with
    `noise` the launch variance that A/A showed, or the assumed least, is added: then the interval
    is about the change, not about this launch. The caller accepts only a ratio above 1.
    Raises ValueError for fewer than two pairs or a value that is not finite.
    """
    means, within, freedom, inverse = _moments([log_ratios])
    if freedom == 0:
        raise ValueError("a confirmation needs at least two pairs")
    between = max(LEAST_LAUNCH_SD, (noise.launch_sd_pct or 0.0) / 100) ** 2 if noise else 0.0
    half = float(stats.t.isf(0.025, freedom)) * np.sqrt(within * inverse + between)
    return around(float(means[0]), float(half), freedom + 1)
