"""Correctness gates by change class, over the recorded outputs of both arms. Pure.

Requests stream through: memory does not grow with their number. Everything is judged per output
tensor and request, but for the referee's condition, which takes all requests together: on a
tensor of a few elements the baseline's own error is often zero by luck.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from layers.base import ChangeClass
from layers.errors import InvalidInput
from layers.evidence import Gate, GateResult, OutputRow
from layers.gates.tensors import (
    STRINGS,
    Array,
    Floats,
    UpperTail,
    bits_differ,
    deviation_of,
    distance,
    is_finite,
    rms,
    type_name,
)

Outputs: TypeAlias = Mapping[str, Array]
# baseline, candidate (None: no response), float64 referee (None: not asked for this request)
Triple: TypeAlias = tuple[Outputs, Outputs | None, Outputs | None]

OUTLIERS_ONE_IN = 1000  # elements of one tensor of one response
OUTLIER_FACTOR = 10.0  # no element may deviate by more than this many limits
REFEREE_FACTOR = 2.0  # candidate's float64 error over the baseline's own


@dataclass(frozen=True, slots=True)
class Limits:
    """Largest absolute deviation of the reorder class, by dtype; may be tightened, not loosened.

    Both shrink with min(1, RMS of the baseline's output). float64 outputs get the float32 limit.
    """

    float32: float = 1e-4
    float16: float = 1e-3

    def __post_init__(self) -> None:
        """Raise InvalidInput for a limit that is looser than the method's."""
        if not (0 < self.float32 <= 1e-4 and 0 < self.float16 <= 1e-3):
            raise InvalidInput(
                f"reorder limits {self.float32:g} (float32) and {self.float16:g} (float16)",
                hint="limits may be tightened only: at most 1e-4 and 1e-3, above 0",
            )

    def of(self, dtype: np.dtype[Any]) -> float:
        """Return the limit of a float dtype."""
        return self.float16 if dtype.itemsize == 2 else self.float32


@dataclass(frozen=True, slots=True)
class Comparison:
    """The equivalence table and the gates of one candidate."""

    rows: list[OutputRow]
    gates: list[Gate]

    @property
    def passed(self) -> bool:
        """Whether every gate passed."""
        return all(gate.result is GateResult.PASS for gate in self.gates)


@dataclass(slots=True)
class Errors:
    """How far both arms are from the float64 referee in one output."""

    requests: int = 0
    baseline: UpperTail = field(default_factory=UpperTail)
    candidate: UpperTail = field(default_factory=UpperTail)

    def add(self, baseline: Array, candidate: Array, referee: Floats) -> None:
        """Take in one answer of each."""
        self.requests += 1
        self.baseline.add(distance(baseline, referee))
        self.candidate.add(distance(candidate, referee))

    def fields(self) -> dict[str, float | int | None]:
        """Return them as fields of the equivalence table."""
        known = self.requests > 0
        return {
            "referee_max_baseline": self.baseline.largest if known else None,
            "referee_max_candidate": self.candidate.largest if known else None,
            "referee_p999_baseline": self.baseline.p999 if known else None,
            "referee_p999_candidate": self.candidate.p999 if known else None,
            "referee_requests": self.requests,
        }


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a candidate fails."""

    reason: str
    detail: str
    undecided: bool = False  # the baseline may be to blame: it does not repeat this output


@dataclass(slots=True)
class _Output:
    """What has been seen of one output."""

    name: str
    dtype: np.dtype[Any]
    must_match: bool  # bit for bit
    repeats: bool  # the baseline gives it bit for bit again
    limit: float | None
    errors: Errors
    requests: int = 0
    elements: int = 0
    differing: int = 0
    outliers: int = 0
    deviation: UpperTail = field(default_factory=UpperTail)
    failure: _Failure | None = None  # the first one

    def add(self, index: int, baseline: Array, candidate: Array) -> None:
        """Take in one response's tensors, of one shape and dtype."""
        differs = bits_differ(baseline, candidate)
        differing = int(np.count_nonzero(differs))
        self.requests += 1
        self.elements += differs.size
        self.differing += differing
        deviation = deviation_of(baseline, candidate, differs)
        self.deviation.add(deviation)
        where = f"output {self.name!r} of request {index}"
        if self.must_match and differing:
            told = f"{where}: {differing} of {differs.size} elements differ"
            self._fail("outputs_differ", told, undecided=not self.repeats)
        elif self.limit is not None:
            self._limit(where, self.limit * min(1.0, rms(baseline)), deviation)

    def _limit(self, where: str, limit: float, deviation: Floats) -> None:
        """Hold the deviation of one tensor to the limit, already scaled by its RMS."""
        outliers = int(np.count_nonzero(deviation > limit))
        self.outliers += outliers
        largest = float(deviation.max(initial=0.0))
        if largest > OUTLIER_FACTOR * limit:
            self._fail("beyond_ten_times", f"{where}: {largest:.3g} against a limit of {limit:.3g}")
        elif outliers * OUTLIERS_ONE_IN > deviation.size:
            share = f"{outliers} of {deviation.size} elements"
            self._fail("too_many_outliers", f"{where}: {share} beyond {limit:.3g}")

    def _fail(self, reason: str, detail: str, *, undecided: bool = False) -> None:
        """Keep the first failure."""
        self.failure = self.failure or _Failure(reason, detail, undecided)

    def row(self) -> OutputRow:
        """Return the line of the equivalence table."""
        row = OutputRow(
            output=self.name,
            dtype=type_name(self.dtype),
            requests=self.requests,
            elements=self.elements,
            differing=self.differing,
            max_abs=self.deviation.largest,
            p999_abs=self.deviation.p999,
            outliers=self.outliers,
            limit=self.limit,
        )
        return row.model_copy(update=self.errors.fields())


@dataclass(slots=True)
class _Judge:
    """Streams requests into outputs and ends in gates."""

    change_class: ChangeClass
    limits: Limits
    reproducible: Collection[str] | None
    referee_required: bool
    movable: Collection[str] | None
    errors: dict[str, Errors]
    outputs: dict[str, _Output] = field(default_factory=dict)
    requests: int = 0

    def add(self, index: int, triple: Triple) -> _Failure | None:
        """Take in one request; a failure ends the comparison at once."""
        baseline, candidate, referee = triple
        if candidate is None:
            return _Failure("response_missing", f"request {index} has no response")
        failure = _structure(index, baseline, candidate)
        if failure:
            return failure
        self.requests += 1
        for name, reference in baseline.items():
            where = f"output {name!r} of request {index}"
            self._check_baseline(where, reference)
            failure = _non_finite(where, reference, candidate[name])
            if failure:
                return failure
            self._output(name, reference.dtype).add(index, reference, candidate[name])
        if referee is not None:
            self._referee(index, baseline, candidate, referee)
        return None

    def rows(self) -> list[OutputRow]:
        """Return the equivalence table."""
        return [output.row() for output in self.outputs.values()]

    def _output(self, name: str, dtype: np.dtype[Any]) -> _Output:
        """Return the accumulator of an output, made when it is first seen."""
        if name not in self.outputs:
            must_match = self._must_match(name, dtype)
            free = must_match or self._may_move(name, dtype)
            self.outputs[name] = _Output(
                name,
                dtype,
                must_match,
                repeats=self.reproducible is None or name in self.reproducible,
                limit=None if free else self.limits.of(dtype),
                errors=self.errors.setdefault(name, Errors()),
            )
        if type_name(self.outputs[name].dtype) != type_name(dtype):
            before = self.outputs[name].dtype
            raise InvalidInput(f"output {name!r} of the baseline changes from {before} to {dtype}")
        return self.outputs[name]

    def _must_match(self, name: str, dtype: np.dtype[Any]) -> bool:
        """Whether this output must agree bit for bit under the change class."""
        match self.change_class:
            case ChangeClass.EXACT:
                return True
            case ChangeClass.REORDER:
                return dtype.kind != "f"
            case ChangeClass.CONFIG:
                return dtype.kind != "f" or self.reproducible is None or name in self.reproducible
            case ChangeClass.APPROXIMATE:
                return dtype.kind != "f" and not self._may_move(name, dtype)

    def _may_move(self, name: str, dtype: np.dtype[Any]) -> bool:
        """Whether the metric alone decides on an output: a named one, else every float."""
        if self.change_class is not ChangeClass.APPROXIMATE:
            return False
        return dtype.kind == "f" if self.movable is None else name in self.movable

    def _check_baseline(self, where: str, baseline: Array) -> None:
        """Refuse what no gate can judge; raises InvalidInput."""
        dtype = baseline.dtype
        if dtype.kind not in "biuf" + STRINGS or (dtype.kind == "f" and dtype.itemsize > 8):
            raise InvalidInput(f"{where} has dtype {dtype}, which no gate can compare")
        if self.change_class is not ChangeClass.EXACT and not is_finite(baseline):
            raise InvalidInput(
                f"{where}: the baseline itself is not finite",
                hint="mend the stack first: only a bit-identical change can be judged against it",
            )

    def _referee(self, index: int, baseline: Outputs, candidate: Outputs, referee: Outputs) -> None:
        """Take in the float64 outputs of one request; raises InvalidInput where they do not fit."""
        for name, reference in referee.items():
            where = f"referee's output {name!r} of request {index}"
            if name not in baseline:
                raise InvalidInput(f"{where}: the server has no such output")
            if reference.shape != baseline[name].shape:
                shape = baseline[name].shape
                raise InvalidInput(f"{where} has shape {reference.shape}, the server's has {shape}")
            if baseline[name].dtype.kind != "f":
                continue
            if reference.dtype != np.float64 or not is_finite(reference):
                raise InvalidInput(f"{where} must be finite float64, not {reference.dtype}")
            if is_finite(baseline[name]):
                self.errors[name].add(baseline[name], candidate[name], reference)

    def gates(self) -> list[Gate]:
        """Return the gates of all requests together."""
        if not self.requests:
            return [_gate("correctness", GateResult.INCONCLUSIVE, "nothing_compared", "")]
        failures = {o.name: o.failure for o in self.outputs.values() if o.failure}
        for failure in failures.values():
            if not failure.undecided:
                return [_failed(failure)]
        if failures:
            names = f"the unmodified stack does not repeat {', '.join(failures)} bit for bit"
            reason = "baseline_not_reproducible"
            return [_gate("correctness", GateResult.INCONCLUSIVE, reason, names)]
        differing = [output for output in self.outputs.values() if output.differing]
        detail = f"{len(self.outputs)} outputs of {self.requests} requests"
        if not differing:
            return [_gate("correctness", GateResult.PASS, "outputs_identical", detail)]
        if self.change_class is ChangeClass.APPROXIMATE:
            return [_gate("correctness", GateResult.PASS, "outputs_finite", detail)]
        within = _gate("correctness", GateResult.PASS, "within_limits", detail)
        required = self.referee_required and self.change_class is ChangeClass.REORDER
        gate = _referee_gate(differing, required=required)
        return [within, gate] if gate else [within]


def _structure(index: int, baseline: Outputs, candidate: Outputs) -> _Failure | None:
    """Return how names, dtypes or shapes of one response differ, if they do."""
    for reason, names in (
        ("output_missing", sorted(baseline.keys() - candidate.keys())),
        ("output_extra", sorted(candidate.keys() - baseline.keys())),
    ):
        if names:
            return _Failure(reason, f"request {index}: {', '.join(names)}")
    for name, reference in baseline.items():
        where, other = f"output {name!r} of request {index}", candidate[name]
        old, new = type_name(reference.dtype), type_name(other.dtype)
        if old != new:
            return _Failure("dtype_differs", f"{where}: {new}, was {old}")
        if reference.shape != other.shape:
            return _Failure("shape_differs", f"{where}: {other.shape}, was {reference.shape}")
    return None


def _non_finite(where: str, baseline: Array, candidate: Array) -> _Failure | None:
    """Return a candidate's NaN or infinity, but for the baseline's very bits."""
    if is_finite(candidate):
        return None
    bad = ~np.isfinite(candidate.ravel()) & bits_differ(baseline, candidate)
    count = int(np.count_nonzero(bad))
    if not count:
        return None
    return _Failure("non_finite", f"{where}: {count} of {candidate.size} elements")


def _referee_gate(differing: Sequence[_Output], *, required: bool) -> Gate | None:
    """Hold the float64 error of outputs that differ to twice the baseline's own, max and p99.9.

    None where no output that differs has a referee and none is required.
    """
    judged = [output for output in differing if output.errors.requests]
    for output in judged:
        old_errors, new_errors = output.errors.baseline, output.errors.candidate
        for what, old, new in (
            ("max", old_errors.largest, new_errors.largest),
            ("p99.9", old_errors.p999, new_errors.p999),
        ):
            if new > REFEREE_FACTOR * old:
                detail = f"output {output.name!r}: {what} error {new:.3g}, baseline's {old:.3g}"
                return _gate("referee", GateResult.FAIL, "worse_than_referee_allows", detail)
    if required and len(judged) < len(differing):
        names = ", ".join(output.name for output in differing if not output.errors.requests)
        return _gate("referee", GateResult.INCONCLUSIVE, "no_referee", f"no float64 of {names}")
    return _gate("referee", GateResult.PASS, "within_referee_error", "") if judged else None


def _gate(name: str, result: GateResult, reason: str, detail: str) -> Gate:
    return Gate(name=name, result=result, reason=reason, detail=detail)


def _failed(failure: _Failure) -> Gate:
    """Return the failed gate of a failure."""
    return _gate("correctness", GateResult.FAIL, failure.reason, failure.detail)


def compare(
    requests: Iterable[Triple],
    change_class: ChangeClass,
    limits: Limits | None = None,
    reproducible: Collection[str] | None = None,
    *,
    referee_required: bool = True,
    movable: Collection[str] | None = None,
    errors: dict[str, Errors] | None = None,
) -> Comparison:
    """Judge a candidate's outputs against the baseline's by its change class.

    `requests` yields (baseline, candidate, referee) outputs of one request each, by output name;
    numbers are arrays of any shape, strings arrays of bytes or text, the referee's are float64.
    `reproducible` names the outputs that the baseline repeats bit for bit under its own A/A (see
    `reproducible_outputs`): under `config` they must match, all of them where it is None. A
    reordering that moves an output without a float64 reference is not decided, unless
    `referee_required` is off because another comparison of the same trial asks the referee.
    `movable` names the outputs that an approximation may move; None: every float, and nothing
    else. `errors` collects the distances from the referee over all comparisons of a trial, and all
    of them are judged.

    A response with other outputs, dtypes or shapes, or a non-finite element, ends the comparison
    at once. Reasons of the gate `correctness`: outputs_identical, within_limits, outputs_finite
    (approximate: its metric decides), nothing_compared, response_missing, output_missing,
    output_extra, dtype_differs, shape_differs, non_finite, outputs_differ, beyond_ten_times,
    too_many_outliers, baseline_not_reproducible (inconclusive: it must match, and the baseline
    itself does not repeat it). Gate `referee`, where outputs may differ and do:
    within_referee_error, worse_than_referee_allows, no_referee. Raises InvalidInput for a baseline
    that is not finite (but under exact), for dtypes that cannot be compared, and for a referee that
    does not fit.
    """
    found = {} if errors is None else errors
    judge = _Judge(change_class, limits or Limits(), reproducible, referee_required, movable, found)
    for index, triple in enumerate(requests):
        failure = judge.add(index, triple)
        if failure:
            return Comparison(judge.rows(), [_failed(failure)])
    return Comparison(judge.rows(), judge.gates())


def refereed(rows: Iterable[OutputRow], errors: Mapping[str, Errors]) -> list[OutputRow]:
    """Return rows of the equivalence table with the errors that were collected since."""
    return [
        row.model_copy(update=errors[row.output].fields()) if row.output in errors else row
        for row in rows
    ]


def reproducible_outputs(repeats: Iterable[tuple[Outputs, Outputs]]) -> frozenset[str]:
    """Return the outputs that two answers of the baseline to each request share bit for bit."""
    seen: set[str] = set()
    moved: set[str] = set()
    for first, second in repeats:
        seen |= first.keys() | second.keys()
        moved |= first.keys() ^ second.keys()
        for name in first.keys() & second.keys():
            a, b = first[name], second[name]
            same_form = type_name(a.dtype) == type_name(b.dtype) and a.shape == b.shape
            if not same_form or bits_differ(a, b).any():
                moved.add(name)
    return frozenset(seen - moved)
