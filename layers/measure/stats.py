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
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import stats

from layers.evidence import GateResult, Look, NoiseFloor, Pair
from layers.measure.boundaries import (
    LEAST_LAUNCH_SD,
    LookPlan,
    LookRule,
    Standard,
    obrien_fleming,
)
from layers.measure.intervals import (
    Estimate,
    around,
    bootstrap_quantile_ratio,
    commit_gate,
    difference_of_shares_ci,
    ratio_between,
    ratio_ci,
    upper_at_once,
)

__all__ = [
    "Estimate",
    "LookPlan",
    "LookRule",
    "Spread",
    "asked",
    "bootstrap_quantile_ratio",
    "by_launch",
    "clears",
    "commit_gate",
    "confirm",
    "confirmed",
    "could_win",
    "difference_of_shares_ci",
    "launch_floor",
    "look",
    "noise_floor",
    "obrien_fleming",
    "of_one_kind",
    "outlying_pair",
    "outlying_pairs",
    "ratio_between",
    "ratio_ci",
    "resolvable",
    "spread_of",
    "unmeasured_noise",
    "upper_at_once",
]

Floats: TypeAlias = npt.NDArray[np.float64]
Launches: TypeAlias = Sequence[Sequence[float]]  # log ratios of the pairs, one sequence a launch
Decision: TypeAlias = Literal["accept", "reject", "continue", "inconclusive"]

UNMEASURED_FLOOR_PCT = 6.0  # the published end-to-end floor, used until this run has its own
CLEARLY = 3.0  # a mean square that pairs alone explain in one launch of twelve
OUTLYING_SDS, ISOLATED = 6.0, 3.0  # what makes a pair stand alone in its launch
LEAST_PAIR_SD = 0.005  # pairs that differ by less than three percent never do
FAR = 4.0  # standard deviations that a fresh start may lie below what looks saw of the others
MOST_LOST = 0.5  # of the gain (as log ratio), which any fresh start may lie below it
POWER = 0.9  # of the gains that `resolvable` lists
DRAWS = 10_000  # simulated looks behind each of them


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


def outlying_pair(log_ratios: Sequence[float], noise: NoiseFloor) -> int | None:
    """Return the index of the pair that flatters the candidate by standing alone, else None.

    A launch's log ratios, two or more others needed. Such a pair lies `OUTLYING_SDS` A/A standard
    deviations above every other one, and `ISOLATED` times as far as they spread: a wide
    distribution has none, and no launch has two. It is void, and measured again once.
    Only above: a pair far below is kept. Its stall may be the candidate's own, and simulated
    candidates that gain nothing on average but stall in a twentieth of their blocks were accepted
    several times as often when such pairs were void. In A/A launches nothing is void for its ratio.
    """
    found = int(outlying_pairs(np.asarray(log_ratios, float), np.array(noise.pair_sd_pct / 100)))
    return found if found >= 0 else None


def outlying_pairs(log_ratios: Floats, pair_sd: Floats) -> npt.NDArray[np.intp]:
    """Return `outlying_pair` over arrays, -1 for none; the pairs are the last axis."""
    if log_ratios.shape[-1] < 3:
        return np.full(log_ratios.shape[:-1], -1)
    ordered = np.sort(log_ratios, axis=-1)
    gap, width = ordered[..., -1] - ordered[..., -2], ordered[..., -2] - ordered[..., 0]
    alone = (gap > OUTLYING_SDS * np.maximum(pair_sd, LEAST_PAIR_SD)) & (gap > ISOLATED * width)
    return np.where(alone, log_ratios.argmax(-1), -1)


# --- looks ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spread:
    """How much launches of one candidate vary, in log ratios squared; arrays of one shape."""

    square: Floats  # mean square of launch means about their expectation, A/A launches included
    within: Floats  # variance of pairs inside a launch
    shown: Floats  # launch variance that the A/A launches show beyond doubt, 0 where they do not
    inverse: float  # mean of 1/pairs per launch

    def variance(self) -> Floats:
        """Return the variance of one launch's mean: what launch means show, or the least."""
        return np.maximum(self.square, LEAST_LAUNCH_SD**2 + self.within * self.inverse)


def spread_of(
    noise_means: Floats, noise_within: Floats, between: Floats, within: Floats, inverse: float
) -> Spread:
    """Return the spread from A/A launch means (last axis) and the candidate's own launches.

    `between` is the mean square of all launch means, `within` the variance of pairs that counts.
    A/A launches show a shift of their own where their mean square is beyond three times what
    pairs explain; it is shrunk as if one more launch had shown none. This holds against
    candidates whose few launches agree by chance, as they do where a start has only two states.
    """
    count = noise_means.shape[-1]
    squares = (noise_means**2).sum(-1) / max(1, count)
    excess = squares - CLEARLY * noise_within * inverse
    shown = np.maximum(0.0, excess) * (count / (count + 1))
    return Spread(between, within, np.broadcast_to(shown, within.shape), inverse)


def asked(spread: Spread, standard: Standard) -> Floats:
    """Return the log ratio that a look asks for.

    Its square is that of the boundary over the variance assumed, and that of the wider boundary
    over what launches show beyond it: few launches that differ much ask for a lot, few that do not
    are taken as assumed.
    """
    least = np.maximum(standard.least_sd**2, spread.shown) + spread.within * spread.inverse
    beyond = np.maximum(0.0, spread.square - least)
    square = standard.boundary**2 * least + standard.own_boundary**2 * beyond
    return np.asarray(np.sqrt(square / standard.k), dtype=np.float64)


def clears(
    estimate: Floats, spread: Spread, floor: Floats, rule: LookRule
) -> npt.NDArray[np.bool_]:
    """Whether log ratios `estimate` lie above the noise at this look and above its boundary.

    `floor` is e as a fraction; the gain 1 - 1/ratio must exceed e / sqrt(k).
    """
    above_floor = -np.expm1(-estimate) > floor / np.sqrt(rule.now.k)
    return np.asarray(above_floor & (estimate >= asked(spread, rule.now)), dtype=np.bool_)


def could_win(
    estimate: Floats, spread: Spread, floor: Floats, rule: LookRule
) -> npt.NDArray[np.bool_]:
    """Whether the upper end of the 95 % interval would be accepted at the last look."""
    upper = estimate + rule.t95 * np.sqrt(spread.variance() / rule.now.k)
    above_floor = -np.expm1(-upper) > floor / np.sqrt(rule.last.k)
    return np.asarray(above_floor & (upper >= asked(spread, rule.last)), dtype=np.bool_)


def look(launches: Launches, noise: NoiseFloor, plan: LookPlan) -> Look:
    """Judge all launches of a candidate so far: log ratios of its pairs, by launch.

    The estimate is the mean of the launch means. Its standard error takes, for the pairs, the
    larger of what they show and what A/A and they show together (a candidate may be noisier than
    the baseline); for the launches what A/A and they show together, or the assumed least.
    `boundary` is what this look asks for, in standard errors.
    Reasons: gain_above_noise; in_remeasuring_band;
    slower, below_noise_floor, boundary_out_of_reach (cannot win any more);
    last_look_reached (could have been a gain, looks are used up).
    Raises ValueError for a number of launches at which no look is planned.
    """
    means, within, freedom, inverse = _moments(launches)
    k = len(launches)
    rule = plan.rule(k, len(noise.launch_differences_pct))
    spread = _spread(means, (within, freedom, inverse), noise)
    estimate, se = means.mean(), np.sqrt(spread.variance() / k)
    decision, reason = _decide(estimate, spread, np.array(noise.floor_pct / 100), rule)
    half = rule.t95 * se
    return Look(
        k=k,
        pairs=freedom + k,
        estimate=float(np.exp(estimate)),
        ci=(float(np.exp(estimate - half)), float(np.exp(estimate + half))),
        gain=float(-np.expm1(-estimate)),
        floor=noise.floor_pct / 100 / float(np.sqrt(k)),
        z=float(estimate / se),
        boundary=float(asked(spread, rule.now) / se),
        decision=decision,
        reason=reason,
    )


def _spread(means: Floats, pairs: tuple[float, int, float], noise: NoiseFloor) -> Spread:
    """Return the spread of one candidate; `pairs` are the other values of `_moments`."""
    within, freedom, inverse = pairs
    noise_means = np.array(noise.launch_differences_pct) / 100
    noise_within, noise_freedom = (noise.pair_sd_pct / 100) ** 2, noise.pairs - noise.launches
    total = freedom + noise_freedom
    pooled = (freedom * within + noise_freedom * noise_within) / total if total else 0.0
    squares = float((noise_means**2).sum() + ((means - means.mean()) ** 2).sum())
    square = squares / max(1, len(noise_means) + len(means) - 1)
    counted = np.array(max(pooled, within))
    return spread_of(noise_means, np.array(noise_within), np.array(square), counted, inverse)


def _decide(
    estimate: Floats, spread: Spread, floor: Floats, rule: LookRule
) -> tuple[Decision, str]:
    """Return the decision and its reason code for one candidate."""
    if clears(estimate, spread, floor, rule):
        return "accept", "gain_above_noise"
    if could_win(estimate, spread, floor, rule):
        if rule.now.k < rule.last.k:
            return "continue", "in_remeasuring_band"
        return "inconclusive", "last_look_reached"
    if estimate + rule.t95 * np.sqrt(spread.variance() / rule.now.k) < 0:
        return "reject", "slower"
    if -np.expm1(-estimate) <= floor / np.sqrt(rule.last.k):
        return "reject", "below_noise_floor"
    return "reject", "boundary_out_of_reach"


def resolvable(
    noise: NoiseFloor, plan: LookPlan, seconds_per_launch: float
) -> list[tuple[float, int, float]]:
    """Return (gain, launches, minutes) per look: the least gain that nine in ten times clears it.

    From simulated looks (seeded) at a stack whose noise is what A/A showed.
    """
    within = (noise.pair_sd_pct / 100) ** 2
    unit = max((noise.launch_sd_pct or 0.0) / 100, LEAST_LAUNCH_SD) ** 2
    unit += within / plan.pairs_per_launch
    count, pairs = len(noise.launch_differences_pct), noise.pairs - noise.launches
    rng = np.random.default_rng(0)
    rows = []
    for k in plan.looks:
        own_freedom = k * (plan.pairs_per_launch - 1)
        own = within * rng.chisquare(own_freedom, DRAWS) / own_freedom
        others = within * rng.chisquare(pairs, DRAWS) / pairs if pairs else np.zeros(DRAWS)
        pooled = (own * own_freedom + others * pairs) / (own_freedom + pairs)
        noise_means = rng.normal(0, np.sqrt(unit), (DRAWS, count))
        squares = unit * rng.chisquare(k - 1, DRAWS) if k > 1 else np.zeros(DRAWS)
        square = (squares + (noise_means**2).sum(-1)) / max(1, count + k - 1)
        counted = np.maximum(own, pooled)
        spread = spread_of(noise_means, others, square, counted, 1 / plan.pairs_per_launch)
        floor = -np.log1p(-min(0.99, noise.floor_pct / 100 / np.sqrt(k)))
        least = np.maximum(asked(spread, plan.standard(k, count)), floor)
        needed = np.quantile(least - rng.normal(0, np.sqrt(unit / k), DRAWS), POWER)
        rows.append((float(-np.expm1(-needed)), k, k * seconds_per_launch / 60))
    return rows


def confirm(launches: Launches, noise: NoiseFloor | None = None) -> Estimate:
    """Return the gain to print: the ratio of fresh pairs, log ratios by launch, with its 95 % interval.

    Student's, of the launches' means. One launch cannot show its own shift, and few say little of
    it, so with `noise` no less is assumed than A/A showed of pairs and launches, or the least of a
    launch: then the interval is about the change, not about these starts.
    Raises ValueError for fewer than two pairs or a value that is not finite.
    """
    means, within, freedom, inverse = _moments(launches)
    count = len(means)
    if freedom + count < 2:
        raise ValueError("a confirmation needs at least two pairs")
    unit = float(means.var(ddof=1)) if count > 1 else within * inverse
    if noise is not None:
        pairs = max(within, (noise.pair_sd_pct / 100) ** 2) if count > 1 else within
        unit = max(unit, pairs * inverse + _launch_variance(noise))
    half = float(stats.t.isf(0.025, freedom + count - 1)) * np.sqrt(unit / count)
    return around(float(means.mean()), float(half), freedom + count)


def confirmed(
    fresh: Launches, seen: Launches, noise: NoiseFloor
) -> tuple[GateResult, Literal["gain_confirmed", "gain_not_confirmed", "launches_differ"]]:
    """Say whether fresh launches bear out what the looks at others saw: log ratios of pairs by launch.

    They must show a gain on average, and none of them may lie far below what was seen and lose most
    of it: a candidate whose starts are of two kinds, one of them slow, is no gain that anybody can
    count on.
    """
    means, _, _, fresh_inverse = _moments(fresh)
    if means.mean() <= 0:
        return GateResult.FAIL, "gain_not_confirmed"
    looked, within, _, inverse = _moments(seen)
    within = max(within, (noise.pair_sd_pct / 100) ** 2)
    variance = within * (fresh_inverse + inverse / len(looked))
    variance += _launch_variance(noise) * (1 + 1 / len(looked))
    if not of_one_kind(np.asarray(looked.mean()), means, np.array(variance)):
        return GateResult.INCONCLUSIVE, "launches_differ"
    return GateResult.PASS, "gain_confirmed"


def of_one_kind(seen: Floats, fresh: Floats, variance: Floats) -> npt.NDArray[np.bool_]:
    """Whether no fresh start lies `FAR` below the mean of others, and has lost `MOST_LOST` of it.

    Fresh starts are the last axis. `variance`: of the difference of one fresh start and that mean,
    where all are of one kind. Starts of a tenfold gain differ by more than those of a small one, and
    each is a gain.
    """
    allowed = np.maximum(FAR * np.sqrt(variance), MOST_LOST * np.asarray(seen))
    return np.asarray(seen - fresh.min(-1) <= allowed, dtype=np.bool_)


def _launch_variance(noise: NoiseFloor) -> float:
    """Return the variance between launches to reckon with: what A/A showed, or the assumed least."""
    return max(LEAST_LAUNCH_SD, (noise.launch_sd_pct or 0.0) / 100) ** 2
