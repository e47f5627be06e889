"""Floats that may differ by little: limits, slices, errors against float64. Pure.

The rules of a reordering are those of `layers.gates.correctness`, in two ways finer, as an output of
a function may be of parts of very different size:

- On content as it is drawn, limits and float64 errors scale with the RMS of the least slice that an
  element lies in: a vector of the last axis, or one place of all rows. Where that is below what the
  baseline itself errs by in the slice (cancellation), twice that error is allowed instead. Slices of
  few numbers are none.
- On other content an output may be nothing but rounding, as the variance of equal numbers is. There
  the rounding of the output as it usually is is allowed.
- An element deviates by nothing that is at least as near to float64 as the baseline's, or as near
  as rounding puts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from layers.callables.codec import Leaf
from layers.callables.probes import float_bytes
from layers.gates.correctness import OUTLIER_FACTOR, OUTLIERS_ONE_IN, REFEREE_FACTOR
from layers.gates.tensors import Array, Floats, UpperTail, distance, rms

SLACK_EPS = 4.0  # rounding units of the output that changed content may cost a candidate
# Of float64 outputs: the referee is rounded as they are, and may be the reference itself. The
# largest of many elements' errors, in units of the output's RMS, is some tens of them.
DOUBLE_SLACK_EPS = 32.0
EPS = {2: 2.0**-10, 4: 2.0**-23, 8: 2.0**-52, 16: 2.0**-52}  # by the bytes of one float
BFLOAT16_EPS = 2.0**-7
SMALLEST = {2: 2.0**-24, 4: 2.0**-126, 8: 2.0**-1022, 16: 2.0**-1022}  # errors below are underflow
LEAST_SLICE = 32  # numbers that are not zero, which a slice needs to have a size of its own
CANCELLED = 0.01  # of a slice's RMS: where the baseline errs by more, what is there is rounding
# An error counts from a tenth of the limit on, of its slice's RMS, or from so many rounding units: how
# exactly the smallest parts of an output come out depends on the way they are computed in.
SLICED_SHARE, SLICED_EPS = 0.1, 1024.0
BASE, LARGE_BATCH, EMPTY = "base", "large batch", "empty batch"
TYPICAL = (BASE, LARGE_BATCH)  # groups of calls with content as it is drawn

Pair: TypeAlias = tuple[str, float, float, float]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a candidate fails: a reason code, and where.

    `for_referee`: it may be right all the same, nearer to float64 than the baseline, which was not
    at hand.
    """

    reason: str
    detail: str
    for_referee: bool = False


@dataclass(frozen=True, slots=True)
class Compared:
    """Floats of both arms and of float64, in the shape of the output."""

    old: Floats
    new: Floats
    truth: Floats | None

    @property
    def both(self) -> Array:
        """Where both arms are finite."""
        return np.asarray(np.isfinite(self.old) & np.isfinite(self.new))


@dataclass(slots=True)
class Errors:
    """Errors of both arms against float64, of one output in one group of calls."""

    scale: float = 0.0  # largest RMS of the referee's output
    peak: float = 0.0  # its largest element
    baseline: UpperTail = field(default_factory=UpperTail)
    candidate: UpperTail = field(default_factory=UpperTail)
    repaired: float = 0.0  # largest error where only the candidate is finite, over its allowance
    # The same in units of each element's slice; there are none where outputs have no slices.
    sliced_peak: float = 0.0
    sliced_baseline: UpperTail = field(default_factory=UpperTail)
    sliced_candidate: UpperTail = field(default_factory=UpperTail)


def kinds(where: str, values: Compared, *, lenient: bool) -> Failure | None:
    """Return where the candidate is not finite, or finite, against the reference and the truth."""
    old, new, truth = values.old, values.new, values.truth
    bad = np.isfinite(old) & ~np.isfinite(new)
    if bad.any():
        return Failure("non_finite", f"{where}: {np.count_nonzero(bad)} of {new.size} elements")
    with np.errstate(invalid="ignore"):
        same = (np.isnan(old) & np.isnan(new)) | (old == new) | np.isfinite(old)
    if truth is not None:
        same = same | (np.isfinite(truth) & np.isfinite(new))
    if lenient or same.all():
        return None
    count = np.count_nonzero(~same)
    detail = f"{count} of {new.size} elements are finite, or infinite, where they were not"
    return Failure("outputs_differ", f"{where}: {detail}")


# --- limits -----------------------------------------------------------------------------------


def limited(
    where: str,
    leaf: Leaf,
    values: Compared,
    limit: float,
    group: str,
    *,
    sliced: bool,
    usual: float,
) -> tuple[Failure | None, int]:
    """Hold the deviation of one output of one call to its limit; how many are beyond it.

    On content as it is drawn the limit does not grow with the output, but for very large batches,
    as those may be added up. `usual` is the output's RMS on such content. Where other content is all
    alike, slices may be of any size beside what they are computed from.
    """
    both = values.both
    gap = np.where(both, _gap(values.new, values.old), 0.0)
    if values.truth is not None:
        gap = np.where(_near(values, values.truth, eps_of(leaf)), 0.0, gap)
    size = rms(values.old[both])
    cap = min(1.0, size) if group == BASE else size
    allowed: Floats = np.full((1,) * gap.ndim, limit * cap)
    if sliced and group in TYPICAL:
        allowed = _allowed(values, limit, cap)
    if group != BASE:
        allowed = np.maximum(allowed, SMALLEST[float_bytes(leaf)])
        if _rounding_only(values, size):
            allowed = np.maximum(allowed, _usual_rounding(leaf, usual))
    for reason, factor, one_in in (
        ("beyond_ten_times", OUTLIER_FACTOR, 0),
        ("too_many_outliers", 1.0, OUTLIERS_ONE_IN),
    ):
        beyond = gap > factor * allowed
        outliers, compared = int(np.count_nonzero(beyond)), int(np.count_nonzero(both))
        if outliers and (not one_in or outliers * one_in > compared):
            worst = int(np.where(beyond, gap, 0.0).argmax())
            held = float(np.broadcast_to(allowed, gap.shape).flat[worst])
            share = f"{outliers} of {compared} elements beyond {held:.3g}"
            largest = f"{float(gap.flat[worst]):.3g} against a limit of {held:.3g}"
            detail = share if one_in else largest
            return Failure(reason, f"{where}: {detail}"), int(np.count_nonzero(gap > allowed))
    return None, outliers


def _rounding_only(values: Compared, size: float) -> bool:
    """Whether an output of that RMS is zero, or not much more than what the baseline errs by."""
    if not size or values.truth is None:
        return not size
    known = values.both & np.isfinite(values.truth)
    return rms(_gap(values.old, values.truth)[known]) > CANCELLED * size


def _allowed(values: Compared, limit: float, cap: float) -> Floats:
    """Return the largest deviation by element: `limit` by `cap`, less in small slices."""
    both = values.both
    old = np.where(both, values.old, 0.0)
    error: Floats | None = None
    if values.truth is not None:
        error = np.where(both & np.isfinite(values.truth), _gap(old, values.truth), 0.0)
    allowed: Floats = np.full((1,) * old.ndim, limit * cap)
    for axis, size in _slices(old):
        own = limit * np.minimum(cap, size)
        if error is not None:
            unsure = REFEREE_FACTOR * error.max(axis=axis, keepdims=True)
            own = np.maximum(own, np.minimum(limit * cap, unsure))
        allowed = np.minimum(allowed, own)
    return allowed


def _slices(values: Floats) -> Iterator[tuple[int, Floats]]:
    """Yield the axes along which a finite output has slices, with the RMS of each slice.

    It is infinite where a slice has too few numbers to have a size of its own. Shapes: those of
    `values` with 1 for the axis.
    """
    peak = float(np.abs(values).max(initial=0.0))
    if values.ndim < 2 or not peak:
        return
    power = (values / peak) ** 2
    for axis in (0, values.ndim - 1):
        if values.shape[axis] >= LEAST_SLICE:
            enough = np.count_nonzero(power, axis=axis, keepdims=True) >= LEAST_SLICE
            size = peak * np.sqrt(power.mean(axis=axis, keepdims=True))
            yield axis, np.where(enough, size, np.inf)


def _gap(one: Floats, other: Floats) -> Floats:
    """Return |one - other| in their shape, capped at the largest float; NaN where one is NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.minimum(np.abs(one - other), np.finfo(np.float64).max)


def _near(values: Compared, truth: Floats, eps: float) -> Array:
    """Return which elements are as near to float64 as the baseline's, or as rounding puts them."""
    with np.errstate(invalid="ignore"):
        allowed = np.fmax(_gap(values.old, truth), eps / 2 * np.abs(truth))
        return np.asarray(np.isfinite(truth) & (_gap(values.new, truth) <= allowed))


# --- errors against float64 -------------------------------------------------------------------


def take_errors(errors: Errors, leaf: Leaf, values: Compared, group: str) -> None:
    """Take in the errors of both arms where all three are finite.

    Where the reference is not, it has no error to be compared with: what the candidate repairs is
    held to rounding, of the element itself or of the RMS of all that it repairs in this call.
    The scale of rounding is that of all elements: what overflows first is what is largest.
    """
    old, new, truth = values.old, values.new, values.truth
    if truth is None:
        return
    finite = np.isfinite(new) & np.isfinite(truth)
    known = finite & np.isfinite(old)
    errors.scale = max(errors.scale, rms(truth[finite]))
    errors.peak = max(errors.peak, float(np.abs(truth[finite]).max(initial=0.0)))
    errors.baseline.add(distance(old[known], truth[known]))
    errors.candidate.add(distance(new[known], truth[known]))
    smallest = SMALLEST[float_bytes(leaf)]
    if group in TYPICAL:  # elsewhere slices may be of any size beside what they are computed from
        _take_sliced(errors, values, np.asarray(known), smallest)
    repaired = finite & ~np.isfinite(old)
    if repaired.any():
        right = truth[repaired]
        unit = SLACK_EPS * eps_of(leaf)
        allowed = np.maximum(unit * np.maximum(np.abs(right), rms(right)), smallest)
        excess = float((distance(new[repaired], right) / allowed).max())
        errors.repaired = max(errors.repaired, excess)


def _take_sliced(errors: Errors, values: Compared, known: Array, smallest: float) -> None:
    """Take in the errors in units of the least slice of each element, where there are slices."""
    if values.truth is None:
        return
    truth = np.where(known, values.truth, 0.0)
    error = np.where(known, _gap(values.old, values.truth), 0.0)
    slices = list(_slices(truth))
    if not slices:
        return
    unit: Floats = np.full((1,) * truth.ndim, rms(truth))
    for axis, sizes in slices:
        sure = error.max(axis=axis, keepdims=True) <= CANCELLED * sizes
        unit = np.minimum(unit, np.where(sure, sizes, np.inf))
    for tail, side in ((errors.sliced_baseline, values.old), (errors.sliced_candidate, values.new)):
        gap = np.where(known, _gap(side, values.truth), 0.0)
        tail.add(np.where(gap > smallest, gap / unit, 0.0)[known])
    errors.sliced_peak = max(errors.sliced_peak, float((np.abs(truth) / unit).max(initial=0.0)))


def eps_of(leaf: Leaf) -> float:
    """Return the rounding unit of a float leaf's dtype."""
    return BFLOAT16_EPS if leaf.dtype == "bfloat16" else EPS[float_bytes(leaf)]


def _usual_rounding(leaf: Leaf, usual: float) -> float:
    """Return the error that an output which is nothing but rounding may have."""
    return SLACK_EPS * eps_of(leaf) * usual


def _slack_eps(leaf: Leaf, group: str) -> float:
    """Return the rounding units that a candidate may err by beside.

    They are units of the largest element for the largest error, of the RMS for p99.9.
    """
    if float_bytes(leaf) >= 8:
        return DOUBLE_SLACK_EPS
    return 0.0 if group == BASE else SLACK_EPS


def errors_beyond(errors: Errors, leaf: Leaf, group: str, limit: float, usual: float) -> str:
    """Return which error of the candidate is more than twice the baseline's, "" for none.

    `limit` is the largest deviation of the output, `usual` its RMS on content as it is drawn.
    """
    if errors.repaired > 1:
        times = f"{errors.repaired:.3g} times the rounding that is allowed"
        return f"{times} where the reference is not finite"
    rounding_only = group != BASE and errors.baseline.largest >= CANCELLED * errors.scale
    least = _usual_rounding(leaf, usual) if rounding_only else 0.0
    for what, old, new, slack in _error_pairs(errors, leaf, group):
        if new > max(REFEREE_FACTOR * old + slack, least):
            return f"{what} {new:.3g}, the reference's {old:.3g}"
    floor = min(SLICED_SHARE * limit, SLICED_EPS * eps_of(leaf))
    for what, old, new, slack in _sliced_pairs(errors, leaf, group):
        if new > max(REFEREE_FACTOR * old + slack, floor):
            return f"{what} of its slice's RMS {new:.3g}, the reference's {old:.3g}"
    return ""


def _error_pairs(errors: Errors, leaf: Leaf, group: str) -> Iterator[Pair]:
    """Yield what is held to twice the baseline's: its name, the two errors, and the slack beside."""
    unit = _slack_eps(leaf, group) * eps_of(leaf)
    least = 0.0 if group == BASE else SMALLEST[float_bytes(leaf)]
    old, new = errors.baseline, errors.candidate
    yield "max error", old.largest, new.largest, unit * errors.peak + least
    yield "p99.9 error", old.p999, new.p999, unit * errors.scale + least


def _sliced_pairs(errors: Errors, leaf: Leaf, group: str) -> Iterator[Pair]:
    """Yield the same in units of slices; one in which the baseline errs by nothing has slack too."""
    unit = max(_slack_eps(leaf, group), SLACK_EPS) * eps_of(leaf)
    old, new = errors.sliced_baseline, errors.sliced_candidate
    yield "max error", old.largest, new.largest, unit * errors.sliced_peak
    yield "p99.9 error", old.p999, new.p999, unit
