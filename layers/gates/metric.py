"""The gate of the approximate class: a business metric, non-inferior by interval. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from layers.errors import InvalidInput
from layers.evidence import Gate, GateResult, Interval


@dataclass(frozen=True, slots=True)
class MetricJudgement:
    """Mean difference of a business metric, its 95 % interval, and the gate `metric`."""

    difference: float | None  # None: the candidate's metric is not finite
    ci: Interval | None
    gate: Gate


def non_inferior(
    metric_a: Sequence[float], metric_b: Sequence[float], margin: float
) -> MetricJudgement:
    """Judge a business metric (higher is better) of candidate b, paired by request with a.

    Passes where the whole 95 % Student interval of the mean of b - a lies at or above -margin.
    Reasons: metric_non_inferior, metric_worse, metric_undecided, non_finite. Raises InvalidInput
    for a baseline metric that is not finite, fewer than two pairs, unequal numbers or a negative
    margin.
    """
    a, b = np.asarray(metric_a, dtype=np.float64), np.asarray(metric_b, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or a.size < 2 or not margin >= 0:
        raise InvalidInput("a metric needs at least two pairs of values, and a margin of 0 or more")
    if not np.isfinite(a).all():
        raise InvalidInput("the metric of the baseline is not finite")
    if not np.isfinite(b).all():
        return MetricJudgement(None, None, _gate(GateResult.FAIL, "non_finite", ""))
    difference = float((b - a).mean())
    half = float(stats.t.isf(0.025, a.size - 1) * (b - a).std(ddof=1) / np.sqrt(a.size))
    ci = (difference - half, difference + half)
    result, reason = GateResult.INCONCLUSIVE, "metric_undecided"
    if ci[0] >= -margin:
        result, reason = GateResult.PASS, "metric_non_inferior"
    elif ci[1] < -margin:
        result, reason = GateResult.FAIL, "metric_worse"
    detail = f"{difference:.3g} ({ci[0]:.3g} to {ci[1]:.3g}) against a margin of {margin:g}"
    return MetricJudgement(difference, ci, _gate(result, reason, detail))


def _gate(result: GateResult, reason: str, detail: str) -> Gate:
    return Gate(name="metric", result=result, reason=reason, detail=detail)
