"""A callable's outputs against the reference's: limits, kinds, groups, the referee."""

import numpy as np
import pytest

from layers.base import ChangeClass
from layers.callables.codec import Leaf, decode, encode
from layers.callables.compare import Answers, Failure, Judge, gate, raised_failure
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


RNG = np.random.default_rng(0)
WIDE = (RNG.standard_normal((64, 64)) * np.repeat([16.0, 1e-7], 32)).astype(np.float32)


def test_a_column_is_held_to_its_own_size() -> None:
    left_out = WIDE.copy()
    left_out[:, 32:] = 0
    failure = _add("reorder", WIDE, left_out, WIDE.astype(np.float64))[1]
    assert failure is not None
    assert failure.reason == "beyond_ten_times"


def test_a_row_is_held_to_its_own_size() -> None:
    left_out = WIDE.T.copy()
    left_out[32:] *= np.float32(1.01)
    failure = _add("reorder", WIDE.T.copy(), left_out, WIDE.T.astype(np.float64))[1]
    assert failure is not None
    assert failure.reason == "beyond_ten_times"


def test_errors_in_a_small_column_are_measured_by_it() -> None:
    truth = WIDE.astype(np.float64) * (1 + 1e-7 * RNG.standard_normal(WIDE.shape))
    coarse = WIDE.copy()
    coarse[:, 32:] *= np.float32(1 + 2e-5)  # inside the limit, a hundred times the usual error
    judge, failure = _add("reorder", WIDE, coarse, truth)
    assert (failure, judge.gates()[-1].reason) == (None, "worse_than_referee_allows")


def test_a_slice_that_is_all_rounding_is_held_to_what_the_baseline_errs_there() -> None:
    truth = RNG.standard_normal((64, 64))
    truth[:, 5] = 0  # cancelled: what is left there is rounding
    noise = 1e-7 * RNG.standard_normal((2, 64, 64))
    old, new = ((truth + part).astype(np.float32) for part in noise)
    judge, failure = _add("reorder", old, new, truth)
    assert (failure, judge.gates()[-1].reason) == (None, "within_referee_error")


def test_slices_are_of_usual_content_alone() -> None:
    """Where rows are equal, a column may cancel out that is computed from numbers of any size."""
    truth = np.tile(RNG.standard_normal(64), (64, 1))
    truth[:, 5] = 1e-5
    old = truth.astype(np.float32)
    new = old.copy()
    new[:, 5] += np.float32(1e-7)
    assert _add("reorder", old, new, group="constant")[1] is None
    failure = _add("reorder", old, new, truth)[1]
    assert failure is not None
    assert failure.reason == "beyond_ten_times"


@pytest.mark.parametrize(
    ("old", "new", "truth", "reason"),
    [
        (0.0, 3e-15, None, None),  # as the variance of equal numbers
        (0.0, 1e-4, None, "beyond_ten_times"),
        (2e-9, 9e-9, 0.0, None),  # what the baseline leaves is rounding, too
        (1e-20, 0.0, None, "beyond_ten_times"),  # small numbers are no rounding
        (1e-20, 0.0, 1e-20, "beyond_ten_times"),
    ],
)
def test_an_output_that_is_all_rounding_may_round_as_it_does_on_usual_content(
    old: float, new: float, truth: float | None, reason: str | None
) -> None:
    judge = Judge(ChangeClass.REORDER)
    assert judge.add("a call", _answers(ONES), _answers(ONES)) is None
    referee = None if truth is None else _answers(np.full(1000, truth))
    sides = (_answers(np.full(1000, value, dtype=np.float32)) for value in (old, new))
    failure = judge.add("other content", *sides, referee, "constant")
    assert (failure and failure.reason) == reason
    if truth is not None and reason is None:
        assert judge.gates()[-1].reason == "within_referee_error"


def test_few_numbers_are_no_slice() -> None:
    truth = np.zeros((64, 8))
    truth[:, 0] = RNG.standard_normal(64)
    truth[3, 1] = 1e-6  # the one number of its column
    old = truth.astype(np.float32)
    new = old.copy()
    new[3, 1] += np.float32(5e-9)
    assert _add("reorder", old, new, truth)[1] is None


def test_nearer_to_float64_is_no_outlier_on_usual_content() -> None:
    truth = np.linspace(1900, 2100, 1000)
    near, far = truth.astype(np.float32), (truth + 1e-2).astype(np.float32)
    judge, failure = _add("reorder", far, near, truth)
    assert (failure, judge.gates()[-1].reason) == (None, "within_referee_error")
    failure = _add("reorder", near, far, truth)[1]
    assert failure is not None
    assert not failure.for_referee


def test_what_only_float64_can_tell_is_asked_for_once_it_is_needed() -> None:
    truth = np.linspace(1900, 2100, 1000)
    near, far = (_answers(x.astype(np.float32)) for x in (truth, truth + 1e-2))
    judge, asked = Judge(ChangeClass.REORDER), []

    def settle() -> Answers:
        asked.append(1)
        return _answers(truth)

    failure = judge.add("a call", far, near)
    assert failure is not None
    assert (failure.reason, failure.for_referee) == ("beyond_ten_times", True)
    assert judge.add("a call", far, far, settle=settle) is None
    assert asked == []
    assert judge.add("a call", far, near, settle=settle) is None
    assert asked == [1]
    failure = judge.add("a call", near, far, settle=settle)
    assert failure is not None
    assert not failure.for_referee


def test_complex_numbers_are_judged_as_pairs_of_floats() -> None:
    old = (ONES + 2j * ONES).astype(np.complex64)
    new, truth = old + np.complex64(2e-7j), old.astype(np.complex128)
    judge, failure = _add("reorder", old, new, truth + 1.2e-7j)
    assert (failure, judge.gates()[-1].reason) == (None, "within_referee_error")
    assert _add("reorder", old, old * np.complex64(1.01), truth)[1] is not None
    spoiled = old.copy()
    spoiled[3] = complex(1, np.nan)
    for change_class in ("exact", "reorder", "approximate"):
        failure = _add(change_class, old, spoiled)[1]
        assert failure is not None
        assert failure.reason == "non_finite"
    assert _add("approximate", old, 2 * old)[1] is None
    assert _add("reorder", 1 + 2j, complex(1, 2 + 1e-12), 1 + 2j)[1] is None


def test_extended_floats_are_compared_bit_for_bit() -> None:
    old = np.ones(3, dtype=np.longdouble)
    assert _add("exact", old, old.copy())[1] is None
    failure = _add("exact", old, np.nextafter(old, np.longdouble(2)))[1]
    assert failure is not None
    assert failure.detail == "'output' of a call: 3 of 3 elements differ"


def test_another_layout_may_round_otherwise_and_nothing_else() -> None:
    judge, failure = _add("exact", ONES, _moved(1e-6, 1000), group="Fortran order")
    assert (failure, judge.gates()[0].reason) == (None, "outputs_identical")
    assert "1000 floats" in judge.gates()[0].detail
    for new in (_moved(0.5, 3), ONES * np.float32(np.nan)):
        assert _add("exact", ONES, new, group="Fortran order")[1] is not None
    assert _add("exact", np.arange(3), np.arange(3) + 1, group="Fortran order")[1] is not None


def test_batches_of_no_row_may_have_lost_their_form() -> None:
    old, new = np.zeros(0), np.zeros((0, 4), dtype=np.int32)
    assert _add("exact", old, new, group="empty batch")[1] is None
    assert _add("exact", old, np.zeros(1), group="empty batch")[1] is not None
    assert _add("exact", old, new)[1] is not None


X, OUT = {"x": np.ones(40, dtype=np.float32)}, {"out": np.zeros(40, dtype=np.float32)}


@pytest.mark.parametrize(
    ("change_class", "old", "new", "reason"),
    [
        ("exact", {}, {}, None),
        ("exact", {"out": 3}, {"out": 3}, None),
        ("exact", {"out": 3}, {}, "outputs_differ"),
        ("exact", {}, {"x": 3}, "inputs_mutated"),
        ("exact", {"out": 3}, {"out": 3, "x": 3}, "inputs_mutated"),
        ("exact", {"out": 3}, {"out": 3 + 3e-7}, "outputs_differ"),
        ("reorder", {"out": 3}, {"out": 3 + 3e-7}, None),
        ("reorder", {"out": 3}, {"out": 3.1}, "beyond_ten_times"),
        ("approximate", {"out": 3}, {"out": np.inf}, "non_finite"),
    ],
)
def test_arguments_after_a_call_are_outputs_where_the_reference_makes_them_so(
    change_class: str, old: dict[str, float], new: dict[str, float], reason: str | None
) -> None:
    sent = {**X, **OUT}

    def after(changed: dict[str, float]) -> bytes:
        return encode(
            {n: np.full_like(x, changed[n]) if n in changed else x for n, x in sent.items()}
        )

    judge = Judge(ChangeClass(change_class))
    leaves = decode(encode(sent))
    failure = judge.arguments("a call", leaves, after(old), after(new))
    assert (failure and failure.reason) == reason


def test_arguments_that_are_no_values_any_more_are_a_failure() -> None:
    sent = encode({**X, **OUT})
    for body in (b"nonsense", encode(X), encode([1])):
        failure = Judge(ChangeClass.EXACT).arguments("a call", decode(sent), sent, body)
        assert failure is not None
        assert failure.reason == "inputs_mutated"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (None, None, None),
        (None, "ValueError: no", "raises"),
        ("ValueError: no", None, "does_not_raise"),
        ("ValueError: no", "ValueError: another text", None),
        ("ValueError: no", "KeyError: 0", "raises"),
        ("ArithmeticError: no", "ZeroDivisionError: no", None),  # is caught by whoever caught it
        ("ZeroDivisionError: no", "ArithmeticError: no", "raises"),
        ("Own: no", "Own: no", None),
        ("Own: no", "print: no", "raises"),
    ],
)
def test_an_error_is_raised_where_one_was_and_can_be_caught_alike(
    old: str | None, new: str | None, reason: str | None
) -> None:
    failure = raised_failure("a call", old, new)
    assert (failure and failure.reason) == reason


def test_names_that_cannot_be_printed_can_be_reported() -> None:
    failure = _add("exact", {"out": ONES}, {"out": ONES, "\ud800": ONES})[1]
    assert failure is not None
    assert failure.reason == "output_extra"
    told = gate("correctness", GateResult.FAIL, failure.reason, failure.detail + "\udcff")
    assert told.model_dump_json().encode()


def test_a_nested_name_and_a_flat_one_are_two_outputs() -> None:
    old = {"user": {"scores": ONES}, "user.scores": ONES}
    new = {"user": {"scores": 0 * ONES}, "user.scores": ONES}
    failure = _add("exact", old, new)[1]
    assert failure is not None
    assert failure.reason == "outputs_differ"


def test_the_order_of_keys_is_part_of_an_answer() -> None:
    failure = _add("exact", {"a": 1, "b": 2}, {"b": 2, "a": 1})[1]
    assert failure is not None
    assert failure.detail == "a call: {b: *, a: *}, was {a: *, b: *}"
