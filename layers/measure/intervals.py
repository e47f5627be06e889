"""Intervals of ratios, quantile ratios and shares, and the commit gate. Pure.

`layers.measure.stats` offers these names too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, hypot, log
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import stats

from layers.evidence import GateResult, Interval

Values: TypeAlias = Sequence[float] | npt.NDArray[np.float64]

MIN_REQUESTS = 1000  # per arm of the commit gate


@dataclass(frozen=True, slots=True)
class Estimate:
    """A ratio with its 95 % interval and the number of values behind it."""

    ratio: float
    ci: Interval
    n: int


def ratio_ci(ratios: Values, confidence: float = 0.95) -> Estimate:
    """Return the geometric mean of independent ratios with its Student interval.

    For launches pass one ratio each; for CPU, the pairs' ratios of CPU per request.
    Raises ValueError for fewer than two ratios, or one that is not positive and finite.
    """
    logs = np.log(_positive(ratios))
    if logs.size < 2:
        raise ValueError("an interval needs at least two ratios")
    half = stats.t.isf((1 - confidence) / 2, logs.size - 1) * logs.std(ddof=1) / np.sqrt(logs.size)
    return around(float(logs.mean()), float(half), logs.size)


def _positive(values: Values) -> npt.NDArray[np.float64]:
    """Return the values as an array; raises ValueError unless all are positive and finite."""
    array = np.asarray(values, dtype=np.float64)
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError("every value must be positive and finite")
    return array


def around(log_ratio: float, half_width: float, n: int) -> Estimate:
    """Return the estimate exp(log_ratio), its interval half_width to each side in the log."""
    return Estimate(exp(log_ratio), (exp(log_ratio - half_width), exp(log_ratio + half_width)), n)


def ratio_between(first: Estimate, second: Estimate) -> Estimate:
    """Return second over first with the 95 % interval of two independent estimates.

    The estimates disagree where the interval excludes 1. Each side of the interval is recovered
    from the sides of the two given ones (Donner and Zou, Stat. Methods Med. Res. 21, 2012).
    """
    centre = log(second.ratio / first.ratio)
    below = hypot(log(second.ratio / second.ci[0]), log(first.ci[1] / first.ratio))
    above = hypot(log(second.ci[1] / second.ratio), log(first.ratio / first.ci[0]))
    ci = (exp(centre - below), exp(centre + above))
    return Estimate(exp(centre), ci, min(first.n, second.n))


def upper_at_once(estimate: Estimate, claims: int) -> float:
    """Return the upper end of an interval at the level that keeps `claims` of them to 95 %.

    Bonferroni's; the half-width grows as Student's quantile with n - 1 degrees of freedom does.
    """
    at_once, alone = (stats.t.isf(0.025 / k, max(estimate.n - 1, 1)) for k in (claims, 1))
    upper: float = estimate.ratio * (estimate.ci[1] / estimate.ratio) ** (at_once / alone)
    return upper


def bootstrap_quantile_ratio(
    latency_a: Values,
    latency_b: Values,
    q: float = 0.99,
    block: int = 50,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> Estimate | None:
    """Return quantile q of a over that of b with a 95 % moving-block bootstrap interval.

    Latencies are 1-d, in order of sending, any unit; neighbours share a queue, hence blocks of
    `block` requests (Kuensch, Annals of Statistics 17, 1989). None where an arm has fewer than
    10 / (1 - q) values: such a quantile is not printed. Raises ValueError for a latency that is
    not positive and finite, a q outside (0, 1) or a block below 1.
    """
    if not 0 < q < 1 or block < 1:
        raise ValueError("q must lie in (0, 1) and a block hold at least one value")
    arms = [_positive(arm) for arm in (latency_a, latency_b)]
    if min(arm.size for arm in arms) < round(10 / (1 - q), 6):
        return None
    rng = np.random.default_rng(seed)
    logs = [_bootstrap_log_quantiles(arm, q, block, resamples, rng) for arm in arms]
    low, high = np.quantile(logs[0] - logs[1], [0.025, 0.975])
    ratio = float(np.quantile(arms[0], q) / np.quantile(arms[1], q))
    return Estimate(ratio, (exp(float(low)), exp(float(high))), min(arm.size for arm in arms))


def _bootstrap_log_quantiles(
    values: npt.NDArray[np.float64], q: float, block: int, resamples: int, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Return log quantiles of `resamples` series glued from random blocks of the given one."""
    block = min(block, values.size)
    windows = np.lib.stride_tricks.sliding_window_view(values, block)
    count = ceil(values.size / block)
    found = np.empty(resamples)
    for i in range(resamples):  # one at a time: bounded memory
        series = windows[rng.integers(0, len(windows), count)].ravel()[: values.size]
        found[i] = np.quantile(series, q)
    return np.log(found)


def at_most(events: int, trials: int, confidence: float = 0.95) -> float:
    """Return the upper bound of a share: one-sided and exact (Clopper and Pearson, 1934).

    With no event it is close to three over `trials`. Raises ValueError for counts that do not fit.
    """
    if not 0 <= events <= trials or trials < 1:
        raise ValueError("there must be trials, and no more events than trials")
    return (
        1.0 if events == trials else float(stats.beta.ppf(confidence, events + 1, trials - events))
    )


def difference_of_shares_ci(over_a: int, n_a: int, over_b: int, n_b: int) -> tuple[float, Interval]:
    """Return share b minus share a with its 95 % interval.

    Newcombe's hybrid of two Wilson intervals (Statistics in Medicine 17, 1998, method 10): it
    holds at shares of 0 and 1 too. Counts are taken as independent.
    Raises ValueError where a count does not fit its total.
    """
    if not (0 <= over_a <= n_a and 0 <= over_b <= n_b and n_a > 0 and n_b > 0):
        raise ValueError("each arm needs requests, and no more over the SLO than requests")
    share_a, share_b = over_a / n_a, over_b / n_b
    a = stats.binomtest(over_a, n_a).proportion_ci(0.95, method="wilson")
    b = stats.binomtest(over_b, n_b).proportion_ci(0.95, method="wilson")
    difference = share_b - share_a
    low = difference - hypot(share_b - b.low, a.high - share_a)
    high = difference + hypot(b.high - share_b, share_a - a.low)
    return difference, (float(low), float(high))


def commit_gate(
    over_a: int, n_a: int, over_b: int, n_b: int, margin: float = 0.01
) -> tuple[float, Interval, GateResult, str]:
    """Judge requests over the SLO, candidate b against baseline a, by interval.

    Returns (difference of shares, 95 % interval, result, reason). Passes where the whole interval
    lies below the margin, fails where it lies at or above it; inconclusive is not committed.
    Reasons: slo_not_worse, slo_worse, slo_undecided, too_few_requests.
    """
    difference, ci = difference_of_shares_ci(over_a, n_a, over_b, n_b)
    if min(n_a, n_b) < MIN_REQUESTS:
        return difference, ci, GateResult.INCONCLUSIVE, "too_few_requests"
    if ci[1] < margin:
        return difference, ci, GateResult.PASS, "slo_not_worse"
    if ci[0] >= margin:
        return difference, ci, GateResult.FAIL, "slo_worse"
    return difference, ci, GateResult.INCONCLUSIVE, "slo_undecided"
