"""A callable's outputs against the reference's, by change class. Pure.

The rules are those of `layers.gates.correctness`, for values that a served stack does not have:
nested outputs, bfloat16, and inputs whose outputs are large or not finite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from layers.base import ChangeClass
from layers.callables.codec import Leaf, Tree, leaves, shape_of
from layers.callables.probes import floats, is_float
from layers.evidence import Gate, GateResult, OutputRow
from layers.gates.correctness import OUTLIER_FACTOR, OUTLIERS_ONE_IN, REFEREE_FACTOR, Limits
from layers.gates.tensors import Array, Floats, UpperTail, bits_differ, distance, rms

SLACK_EPS = 4.0  # rounding units of the output that changed content may cost a candidate
# Of float64 outputs: the referee is rounded as they are, and may be the reference itself. The
# largest of many elements' errors, in units of the output's RMS, is some tens of them.
DOUBLE_SLACK_EPS = 32.0
EPS = {2: 2.0**-10, 4: 2.0**-23, 8: 2.0**-52}
BFLOAT16_EPS = 2.0**-7
SMALLEST = {2: 2.0**-24, 4: 2.0**-126, 8: 2.0**-1022}  # errors below are underflow
BASE = "base"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a candidate fails: a reason code, and where."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Answers:
    """What one call returned, as leaves by name."""

    shape: str
    leaves: Mapping[str, Leaf]

    @classmethod
    def of(cls, tree: Tree) -> Answers:
        """Return the answers of a call's outputs."""
        return cls(shape_of(tree), dict(leaves(tree)))


@dataclass(slots=True)
class _Errors:
    """Errors of both arms against float64, of one output in one group of calls."""

    scale: float = 0.0  # largest RMS of the referee's output
    peak: float = 0.0  # its largest element
    baseline: UpperTail = field(default_factory=UpperTail)
    candidate: UpperTail = field(default_factory=UpperTail)
    repaired: float = 0.0  # largest error where only the candidate is finite, over its allowance


@dataclass(slots=True)
class _Output:
    """What has been seen of one output."""

    leaf: Leaf
    limit: float | None
    calls: int = 0
    elements: int = 0
    differing: int = 0
    outliers: int = 0
    deviation: UpperTail = field(default_factory=UpperTail)
    errors: dict[str, _Errors] = field(default_factory=dict)  # by group
    refereed: int = 0

    def row(self, name: str) -> OutputRow:
        """Return the line of the equivalence table."""
        base = self.errors.get(BASE)
        return OutputRow(
            output=name,
            dtype=self.leaf.dtype if self.leaf.dtype != "O" else "BYTES",
            requests=self.calls,
            elements=self.elements,
            differing=self.differing,
            max_abs=self.deviation.largest,
            p999_abs=self.deviation.p999,
            outliers=self.outliers,
            limit=self.limit,
            referee_max_baseline=base.baseline.largest if base else None,
            referee_max_candidate=base.candidate.largest if base else None,
            referee_p999_baseline=base.baseline.p999 if base else None,
            referee_p999_candidate=base.candidate.p999 if base else None,
            referee_requests=self.refereed,
        )


class Judge:
    """Takes in calls one by one; ends in rows and gates."""

    def __init__(self, change_class: ChangeClass, limits: Limits | None = None) -> None:
        """`limits` are those of the reorder class."""
        self._class = change_class
        self._limits = limits or Limits()
        self._outputs: dict[str, _Output] = {}
        self.calls = 0

    def add(
        self,
        where: str,
        reference: Answers,
        candidate: Answers,
        referee: Answers | None = None,
        group: str = BASE,
    ) -> Failure | None:
        """Take in one call; `group` is its kind of content. Returns the failure it shows."""
        self.calls += 1
        failure = _structure(where, reference, candidate)
        if failure:
            return failure
        for name, leaf in reference.leaves.items():
            truth = _truth(referee, name, leaf)
            found = self._compare(
                f"{name!r} of {where}", name, leaf, candidate.leaves[name], truth, group
            )
            if found:
                return found
        return None

    def _compare(
        self, where: str, name: str, old: Leaf, new: Leaf, truth: Floats | None, group: str
    ) -> Failure | None:
        output = self._outputs.setdefault(name, _Output(old, self._limit(old)))
        a, b = comparable(old), comparable(new)
        differs = bits_differ(a, b)
        count = int(np.count_nonzero(differs))
        output.calls += 1
        output.elements += differs.size
        output.differing += count
        if truth is not None:
            output.refereed += 1
        if not count:
            if truth is not None:
                _take_errors(output, group, floats(old), floats(new), truth)
            return None
        if not is_number(old) or self._class in (ChangeClass.EXACT, ChangeClass.CONFIG):
            if is_number(old) and group == BASE and _newly_non_finite(old, new):
                return Failure("non_finite", f"{where}: NaN or infinity where there was none")
            if self._class is ChangeClass.APPROXIMATE:
                return None
            return Failure("outputs_differ", f"{where}: {count} of {differs.size} elements differ")
        return self._floats(where, output, (floats(old), floats(new), truth), group)

    def _floats(
        self, where: str, output: _Output, values: tuple[Floats, Floats, Floats | None], group: str
    ) -> Failure | None:
        """Judge floats that may differ by little."""
        old, new, truth = values
        lenient = self._class is ChangeClass.APPROXIMATE  # what it repairs its metric judges
        failure = _kinds(where, old, new, truth, lenient=lenient)
        if failure:
            return failure
        both = np.isfinite(old) & np.isfinite(new)
        gap = distance(new[both], old[both])
        output.deviation.add(gap)
        if truth is not None:
            _take_errors(output, group, old, new, truth)
        if output.limit is None:
            return None
        size = rms(old[both])
        scale = min(1.0, size) if group == BASE else size
        if group != BASE and truth is not None:
            gap = np.where(_nearer(old[both], new[both], truth[both]), 0.0, gap)
        return _limited(where, output, gap, output.limit * scale)

    def _limit(self, leaf: Leaf) -> float | None:
        """Return the largest deviation of an output, None where bits must match or none is held."""
        if self._class is not ChangeClass.REORDER or not is_number(leaf):
            return None
        half = leaf.array.dtype.itemsize == 2
        return self._limits.float16 if half else self._limits.float32

    def rows(self) -> list[OutputRow]:
        """Return the equivalence table."""
        return [output.row(name) for name, output in self._outputs.items()]

    def gates(self) -> list[Gate]:
        """Return the gates of all calls together, once none of them failed by itself."""
        detail = f"{len(self._outputs)} outputs of {self.calls} calls"
        moved = {n: o for n, o in self._outputs.items() if o.differing}
        if not moved:
            return [gate("correctness", GateResult.PASS, "outputs_identical", detail)]
        if self._class is ChangeClass.APPROXIMATE:
            return [gate("correctness", GateResult.PASS, "outputs_finite", detail)]
        within = gate("correctness", GateResult.PASS, "within_limits", detail)
        return [within, _referee_gate(moved)]


def gate(name: str, result: GateResult, reason: str, detail: str = "") -> Gate:
    """Return one gate's answer."""
    return Gate(name=name, result=result, reason=reason, detail=detail)


def is_number(leaf: Leaf) -> bool:
    """Whether a leaf holds floats, whatever holds them."""
    return is_float(leaf) or leaf.kind == "float"


def comparable(leaf: Leaf) -> Array:
    """Return the content as `bits_differ` takes it: complex numbers as pairs of floats."""
    array = np.atleast_1d(leaf.array)
    if array.dtype.kind == "c":
        return np.ascontiguousarray(array).view(f"<f{array.dtype.itemsize // 2}")
    return array.view("<i8") if array.dtype.kind in "mM" else array


def _structure(where: str, old: Answers, new: Answers) -> Failure | None:
    """Return how names, nesting, dtypes or shapes differ, if they do."""
    missing, extra = old.leaves.keys() - new.leaves.keys(), new.leaves.keys() - old.leaves.keys()
    for reason, names in (("output_missing", missing), ("output_extra", extra)):
        if names:
            return Failure(reason, f"{where}: {', '.join(sorted(names)[:5])}")
    if old.shape != new.shape:
        return Failure("dtype_differs", f"{where}: {new.shape[:200]}, was {old.shape[:200]}")
    for name, leaf in old.leaves.items():
        other = new.leaves[name]
        if (leaf.kind, leaf.dtype) != (other.kind, other.dtype):
            was = f"{other.kind} {other.dtype}, was {leaf.kind} {leaf.dtype}"
            return Failure("dtype_differs", f"{name!r} of {where}: {was}")
        if leaf.array.shape != other.array.shape:
            was = f"{other.array.shape}, was {leaf.array.shape}"
            return Failure("shape_differs", f"{name!r} of {where}: {was}")
    return None


def _truth(referee: Answers | None, name: str, leaf: Leaf) -> Floats | None:
    """Return the float64 content of one output, where the referee has it."""
    if referee is None or name not in referee.leaves or not is_number(leaf):
        return None
    truth = referee.leaves[name]
    is_double = truth.array.dtype == np.float64
    return truth.array if is_double and truth.array.shape == leaf.array.shape else None


def _newly_non_finite(old: Leaf, new: Leaf) -> bool:
    return bool(np.any(~np.isfinite(floats(new)) & np.isfinite(floats(old))))


def _kinds(
    where: str, old: Floats, new: Floats, truth: Floats | None, *, lenient: bool
) -> Failure | None:
    """Return where the candidate is not finite, or finite, against the reference and the truth."""
    bad = np.isfinite(old) & ~np.isfinite(new)
    if bad.any():
        return Failure("non_finite", f"{where}: {np.count_nonzero(bad)} of {new.size} elements")
    with np.errstate(invalid="ignore"):
        same = (np.isnan(old) & np.isnan(new)) | (old == new) | np.isfinite(old)
    if truth is not None:
        same |= np.isfinite(truth) & np.isfinite(new)
    if lenient or same.all():
        return None
    count = np.count_nonzero(~same)
    detail = f"{count} of {new.size} elements are finite, or infinite, where they were not"
    return Failure("outputs_differ", f"{where}: {detail}")


def _nearer(old: Floats, new: Floats, truth: Floats) -> Array:
    """Return which elements of the candidate are at least as near to float64."""
    return np.isfinite(truth).ravel() & (distance(new, truth) <= distance(old, truth))


def _limited(where: str, output: _Output, gap: Floats, limit: float) -> Failure | None:
    """Hold the deviation of one output of one call to its limit."""
    outliers = int(np.count_nonzero(gap > limit))
    output.outliers += outliers
    largest = float(gap.max(initial=0.0))
    if largest > OUTLIER_FACTOR * limit:
        return Failure("beyond_ten_times", f"{where}: {largest:.3g} against a limit of {limit:.3g}")
    if outliers * OUTLIERS_ONE_IN > gap.size:
        share = f"{outliers} of {gap.size} elements"
        return Failure("too_many_outliers", f"{where}: {share} beyond {limit:.3g}")
    return None


def _take_errors(output: _Output, group: str, old: Floats, new: Floats, truth: Floats) -> None:
    """Take in the errors of both arms where all three are finite.

    Where the reference is not, it has no error to be compared with: what the candidate repairs is
    held to rounding, of the element itself or of the RMS of all that it repairs in this call.
    The scale of rounding is that of all elements: what overflows first is what is largest.
    """
    errors = output.errors.setdefault(group, _Errors())
    finite = np.isfinite(new) & np.isfinite(truth)
    known = finite & np.isfinite(old)
    errors.scale = max(errors.scale, rms(truth[finite]))
    errors.peak = max(errors.peak, float(np.abs(truth[finite]).max(initial=0.0)))
    errors.baseline.add(distance(old[known], truth[known]))
    errors.candidate.add(distance(new[known], truth[known]))
    repaired = finite & ~np.isfinite(old)
    if repaired.any():
        right = truth[repaired]
        unit = SLACK_EPS * eps_of(output.leaf)
        smallest = SMALLEST[output.leaf.array.dtype.itemsize]
        allowed = np.maximum(unit * np.maximum(np.abs(right), rms(right)), smallest)
        excess = float((distance(new[repaired], right) / allowed).max())
        errors.repaired = max(errors.repaired, excess)


def eps_of(leaf: Leaf) -> float:
    """Return the rounding unit of a float leaf's dtype."""
    return BFLOAT16_EPS if leaf.dtype == "bfloat16" else EPS[leaf.array.dtype.itemsize]


def _slack_eps(leaf: Leaf, group: str) -> float:
    """Return the rounding units that a candidate may err by beside.

    They are units of the largest element for the largest error, of the RMS for p99.9.
    """
    if leaf.array.dtype == np.float64:
        return DOUBLE_SLACK_EPS
    return 0.0 if group == BASE else SLACK_EPS


def _referee_gate(moved: Mapping[str, _Output]) -> Gate:
    """Hold the float64 error of outputs that moved to twice the baseline's own, group by group."""
    for name, output in moved.items():
        for group, errors in output.errors.items():
            where = "" if group == BASE else f" on {group} content"
            if errors.repaired > 1:
                detail = (
                    f"{name!r}{where}: {errors.repaired:.3g} times the rounding that is allowed "
                    "where the reference is not finite"
                )
                return gate("referee", GateResult.FAIL, "worse_than_referee_allows", detail)
            unit = _slack_eps(output.leaf, group) * eps_of(output.leaf)
            for what, old, new, size in (
                ("max", errors.baseline.largest, errors.candidate.largest, errors.peak),
                ("p99.9", errors.baseline.p999, errors.candidate.p999, errors.scale),
            ):
                if new > REFEREE_FACTOR * old + unit * size:
                    detail = f"{name!r}{where}: {what} error {new:.3g}, the reference's {old:.3g}"
                    return gate("referee", GateResult.FAIL, "worse_than_referee_allows", detail)
    unjudged = [name for name, output in moved.items() if not output.refereed]
    if unjudged:
        detail = f"no float64 of {', '.join(unjudged)[:200]}"
        return gate("referee", GateResult.INCONCLUSIVE, "no_referee", detail)
    return gate("referee", GateResult.PASS, "within_referee_error")
