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


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a candidate fails."""

    reason: str
    detail: str


@dataclass(slots=True)
class _Output:
    """What has been seen of one output."""

    name: str
    dtype: np.dtype[Any]
    must_match: bool  # bit for bit
    limit: float | None
    requests: int = 0
    elements: int = 0
    differing: int = 0
    outliers: int = 0
    deviation: UpperTail = field(default_factory=UpperTail)
    failure: _Failure | None = None  # the first one
    referee_requests: int = 0
    error_baseline: UpperTail = field(default_factory=UpperTail)
    error_candidate: UpperTail = field(default_factory=UpperTail)

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
            self._fail("outputs_differ", f"{where}: {differing} of {differs.size} elements differ")
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

    def _fail(self, reason: str, detail: str) -> None:
        """Keep the first failure."""
        self.failure = self.failure or _Failure(reason, detail)

    def add_referee(self, baseline: Array, candidate: Array, referee: Floats) -> None:
        """Take in the errors of both arms against float64."""
        self.referee_requests += 1
        self.error_baseline.add(distance(baseline, referee))
        self.error_candidate.add(distance(candidate, referee))

    def row(self) -> OutputRow:
        """Return the line of the equivalence table."""
        judged = self.referee_requests > 0
        return OutputRow(
            output=self.name,
            dtype=type_name(self.dtype),
            requests=self.requests,
            elements=self.elements,
            differing=self.differing,
            max_abs=self.deviation.largest,
            p999_abs=self.deviation.p999,
            outliers=self.outliers,
            limit=self.limit,
            referee_max_baseline=self.error_baseline.largest if judged else None,
            referee_max_candidate=self.error_candidate.largest if judged else None,
            referee_p999_baseline=self.error_baseline.p999 if judged else None,
            referee_p999_candidate=self.error_candidate.p999 if judged else None,
            referee_requests=self.referee_requests,
        )


@dataclass(slots=True)
class _Judge:
    """Streams requests into outputs and ends in gates."""

    change_class: ChangeClass
    limits: Limits
    reproducible: Collection[str] | None
    referee_required: bool
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
            held = not must_match and self.change_class is not ChangeClass.APPROXIMATE
            limit = self.limits.of(dtype) if held else None
            self.outputs[name] = _Output(name, dtype, must_match, limit)
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
                return False

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
                self.outputs[name].add_referee(baseline[name], candidate[name], reference)

    def gates(self) -> list[Gate]:
        """Return the gates of all requests together."""
        if not self.requests:
            return [_gate("correctness", GateResult.INCONCLUSIVE, "nothing_compared", "")]
        failures = [output.failure for output in self.outputs.values() if output.failure]
        if failures:
            return [_failed(failures[0])]
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
    judged = [output for output in differing if output.referee_requests]
    for output in judged:
        for what, old, new in (
            ("max", output.error_baseline.largest, output.error_candidate.largest),
            ("p99.9", output.error_baseline.p999, output.error_candidate.p999),
        ):
            if new > REFEREE_FACTOR * old:
                detail = f"output {output.name!r}: {what} error {new:.3g}, baseline's {old:.3g}"
                return _gate("referee", GateResult.FAIL, "worse_than_referee_allows", detail)
    if required and len(judged) < len(differing):
        names = ", ".join(output.name for output in differing if not output.referee_requests)
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
) -> Comparison:
    """Judge a candidate's outputs against the baseline's by its change class.

    `requests` yields (baseline, candidate, referee) outputs of one request each, by output name;
    numbers are arrays of any shape, strings arrays of bytes or text, the referee's are float64.
    `reproducible` names the outputs that the baseline repeats bit for bit under its own A/A (see
    `reproducible_outputs`): under `config` they must match, all of them where it is None. A
    reordering that moves an output without a float64 reference is not decided, unless
    `referee_required` is off because another comparison of the same trial asks the referee.

    A response with other outputs, dtypes or shapes, or a non-finite element, ends the comparison
    at once. Reasons of the gate `correctness`: outputs_identical, within_limits, outputs_finite
    (approximate: its metric decides), nothing_compared, response_missing, output_missing,
    output_extra, dtype_differs, shape_differs, non_finite, outputs_differ, beyond_ten_times,
    too_many_outliers. Gate `referee`, where outputs may differ and do: within_referee_error,
    worse_than_referee_allows, no_referee. Raises InvalidInput for a baseline that is not finite
    (but under exact), for dtypes that cannot be compared, and for a referee that does not fit.
    """
    judge = _Judge(change_class, limits or Limits(), reproducible, referee_required)
    for index, triple in enumerate(requests):
        failure = judge.add(index, triple)
        if failure:
            return Comparison(judge.rows(), [_failed(failure)])
    return Comparison(judge.rows(), judge.gates())


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
