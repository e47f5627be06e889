"""A callable's outputs against the reference's: limits, kinds, groups, the referee."""

import numpy as np
import pytest

from layers.base import ChangeClass
from layers.callables.codec import Leaf, decode, encode
from layers.callables.compare import Answers, Failure, Judge
from layers.evidence import GateResult


def _answers(value: object) -> Answers:
    return Answers.of(decode(encode(value)))


def _add(change_class: str, old: object, new: object, truth: object = None, group: str = "base"):
    judge = Judge(ChangeClass(change_class))
    referee = None if truth is None else _answers(truth)
    return judge, judge.add("a call", _answers(old), _answers(new), referee, group)


ONES = np.ones(1000, dtype=np.float32)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (ONES, ONES.astype(np.float64), "dtype_differs"),
        (ONES, ONES.reshape(10, 100), "shape_differs"),
        ({"a": ONES}, {"b": ONES}, "output_missing"),
        ({"a": ONES}, {"a": ONES, "b": ONES}, "output_extra"),
        ((ONES, ONES), [ONES, ONES], "dtype_differs"),
        (1, 1.0, "dtype_differs"),
        ("a", b"a", "dtype_differs"),
        (ONES, ONES + np.float32(1e-7), "outputs_differ"),
        (np.zeros(2), -np.zeros(2), "outputs_differ"),
        (ONES, ONES * np.float32(np.nan), "non_finite"),
    ],
)
def test_exact_asks_for_the_same_form_and_bits(old: object, new: object, reason: str) -> None:
    failure = _add("exact", old, new)[1]
    assert failure is not None
    assert failure.reason == reason


@pytest.mark.parametrize("value", [ONES, ONES * np.nan, "text", None, {"a": (1, b"x")}])
def test_exact_passes_what_is_identical(value: object) -> None:
    judge, failure = _add("exact", value, value)
    assert (failure, judge.gates()[0].reason) == (None, "outputs_identical")


def _moved(by: float, count: int) -> np.ndarray:
    moved = ONES.copy()
    moved[:count] += np.float32(by)
    return moved


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (_moved(5e-5, 1000), None),
        (_moved(5e-4, 1), None),
        (_moved(5e-4, 2), "too_many_outliers"),
        (_moved(2e-3, 1), "beyond_ten_times"),
        (_moved(np.inf, 1), "non_finite"),
    ],
)
def test_reorder_holds_the_limits_of_the_class(new: np.ndarray, reason: str | None) -> None:
    failure = _add("reorder", ONES, new)[1]
    assert (failure and failure.reason) == reason


def test_limits_grow_with_the_output_only_on_changed_content() -> None:
    large, moved = 1e6 * ONES, 1e6 * ONES + np.float32(1)
    assert _add("reorder", large, moved)[1] is not None
    assert _add("reorder", large, moved, group="large")[1] is None


def test_reorder_without_float64_is_not_decided() -> None:
    judge, _ = _add("reorder", ONES, _moved(1e-6, 10))
    assert [g.reason for g in judge.gates()] == ["within_limits", "no_referee"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [(1.5e-6, "within_referee_error"), (2.5e-6, "worse_than_referee_allows")],
)
def test_the_error_against_float64_may_double(error: float, reason: str) -> None:
    truth = np.ones(1000)
    judge, failure = _add("reorder", _moved(1e-6, 1000), _moved(error, 1000), truth)
    assert (failure, judge.gates()[-1].reason) == (None, reason)


def test_rounding_is_no_error_on_changed_content_where_the_reference_has_none() -> None:
    truth, near = np.ones(1000), _moved(2e-7, 1000)
    assert _add("reorder", ONES, near, truth, "one-hot")[0].gates()[-1].result is GateResult.PASS
    assert _add("reorder", ONES, near, truth)[0].gates()[-1].result is GateResult.FAIL


def test_a_candidate_may_be_right_where_the_reference_overflows() -> None:
    old, new, truth = np.float32([np.inf, 1]), np.float32([200, 1]), np.array([200.0, 1.0])
    assert _add("reorder", old, new, truth, "large")[1] is None
    failure = _add("reorder", old, new, np.array([np.inf, 1.0]), "large")[1]
    assert failure is not None
    assert failure.reason == "outputs_differ"


def test_a_wrong_finite_value_for_an_overflow_is_found_by_the_referee() -> None:
    old, new, truth = np.float32([np.inf, 1]), np.float32([7, 1]), np.array([200.0, 1.0])
    judge, failure = _add("reorder", old, new, truth, "large")
    assert (failure, judge.gates()[-1].reason) == (None, "worse_than_referee_allows")


def test_a_repaired_element_is_held_to_rounding_whatever_the_reference_errs_elsewhere() -> None:
    old, truth = np.float32([np.nan, 0.9]), np.array([1.0, 1.0])
    for error, reason in ((3e-7, "within_referee_error"), (1e-5, "worse_than_referee_allows")):
        judge, failure = _add("reorder", old, np.float32([1 + error, 0.9]), truth, "large")
        assert (failure, judge.gates()[-1].reason) == (None, reason)


def test_small_errors_are_measured_by_the_whole_output_where_the_reference_overflows() -> None:
    old, new, truth = np.float32([np.nan, 0]), np.float32([8, 1e-9]), np.array([8.0, 2e-9])
    judge, failure = _add("reorder", old, new, truth, "large")
    assert (failure, judge.gates()[-1].reason) == (None, "within_referee_error")


@pytest.mark.parametrize(
    ("group", "reason"),
    [("sparse", "within_referee_error"), ("base", "worse_than_referee_allows")],
)
def test_the_largest_error_on_changed_content_is_measured_by_the_largest_element(
    group: str, reason: str
) -> None:
    truth = np.zeros(4000)
    truth[0] = 8
    old = truth.astype(np.float32)
    new = old.copy()
    new[0] = np.nextafter(new[0], np.float32(9))
    judge, failure = _add("reorder", old, new, truth, group)
    assert (failure, judge.gates()[-1].reason) == (None, reason)


@pytest.mark.parametrize(
    ("error", "reason"),
    [(3e-15, "within_referee_error"), (6e-8, "worse_than_referee_allows")],
)
def test_float64_outputs_may_err_by_rounding_though_the_reference_is_its_own_referee(
    error: float, reason: str
) -> None:
    truth = np.ones(1000)
    judge, failure = _add("reorder", truth, truth + error, truth)
    assert (failure, judge.gates()[-1].reason) == (None, reason)


def test_nearer_to_float64_is_no_outlier_on_changed_content() -> None:
    old, new, truth = _moved(0.5, 1000), _moved(1e-6, 1000), np.ones(1000)
    assert _add("reorder", old, new, truth, "large")[1] is None
    assert isinstance(_add("reorder", new, old, truth, "large")[1], Failure)


def test_approximate_asks_for_finite_outputs_of_the_same_form_alone() -> None:
    assert _add("approximate", ONES, 2 * ONES)[0].gates()[0].reason == "outputs_finite"
    failure = _add("approximate", ONES, ONES * np.float32(np.inf))[1]
    assert failure is not None
    assert failure.reason == "non_finite"


def test_bfloat16_is_judged_by_its_values() -> None:
    def leaf(bits: int) -> Answers:
        return Answers("*", {"output": Leaf("torch", "bfloat16", np.array([bits], dtype="<u2"))})

    judge = Judge(ChangeClass.REORDER)
    failure = judge.add("a call", leaf(0x3F80), leaf(0x3F81))
    assert failure is not None
    assert failure.detail == "'output' of a call: 1 of 1 elements beyond 0.001"
