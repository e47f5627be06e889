"""The correctness gate of every change class, one fact a test."""

import math

import numpy as np
import pytest

from layers.base import ChangeClass
from layers.errors import InvalidInput
from layers.evidence import Gate, GateResult, OutputRow
from layers.gates.correctness import (
    Comparison,
    Limits,
    compare,
    refereed,
    reproducible_outputs,
)
from layers.gates.tensors import TAIL_CAPACITY, UpperTail

EXACT, REORDER = ChangeClass.EXACT, ChangeClass.REORDER
APPROXIMATE, CONFIG = ChangeClass.APPROXIMATE, ChangeClass.CONFIG
PASS, FAIL, INCONCLUSIVE = GateResult.PASS, GateResult.FAIL, GateResult.INCONCLUSIVE


def f32(*values):
    return np.array(values, dtype=np.float32)


def judge(old, new, change_class=EXACT, referee=None, **options) -> Comparison:
    """Compare one request with the one output y."""
    truth = None if referee is None else {"y": np.asarray(referee, dtype=np.float64)}
    return compare([({"y": old}, {"y": new}, truth)], change_class, **options)


def answers(comparison):
    return [(gate.name, gate.result, gate.reason) for gate in comparison.gates]


def only_reason(*args, **options):
    (gate,) = judge(*args, **options).gates
    return gate.reason


# --- exact


def test_identical_outputs_pass_every_class():
    old = f32(1.0, -2.5, 0.0)
    for change_class in ChangeClass:
        found = judge(old, old.copy(), change_class)
        assert found.passed
        assert answers(found) == [("correctness", PASS, "outputs_identical")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f32(0.0), f32(-0.0)),
        (f32(1.0), np.nextafter(f32(1.0), f32(2.0))),
        (np.uint32([0x7FC00000]).view("f4"), np.uint32([0x7FC00001]).view("f4")),
        (f32(math.nan), f32(1.0)),
        (np.array([1, 2]), np.array([1, 3])),
        (np.array([True]), np.array([False])),
        (np.array([b"a"], dtype=object), np.array([b"a\0"], dtype=object)),
        (np.array([b"a"], dtype=object), np.array(["a"], dtype=object)),
    ],
)
def test_exact_sees_every_bit(old, new):
    reason = only_reason(old, new)
    assert reason == (
        "non_finite" if new.dtype.kind == "f" and np.isnan(new[0]) else "outputs_differ"
    )


def test_exact_lets_the_baselines_own_bits_through_even_if_not_finite():
    old = np.uint32([0x7FC00123, 0x7F800000, 0x3F800000]).view("f4")
    assert only_reason(old, old.copy()) == "outputs_identical"


@pytest.mark.parametrize("change_class", list(ChangeClass))
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_new_non_finite_output_fails_every_class_at_once(change_class, bad):
    good = ({"y": f32(1, 2)}, {"y": f32(1, 2)}, None)
    requests = iter([good, ({"y": f32(1, 2)}, {"y": f32(bad, 2)}, None), good])
    (gate,) = compare(requests, change_class).gates
    assert (gate.result, gate.reason) == (FAIL, "non_finite")
    assert gate.detail == "output 'y' of request 1: 1 of 2 elements"
    assert next(requests) is good  # nothing was read after the failure


@pytest.mark.parametrize("change_class", [REORDER, APPROXIMATE, CONFIG])
def test_a_baseline_that_is_not_finite_is_invalid_input(change_class):
    with pytest.raises(InvalidInput, match="output 'y' of request 0: the baseline itself"):
        judge(f32(math.nan), f32(math.nan), change_class)


# --- structure


@pytest.mark.parametrize("change_class", list(ChangeClass))
@pytest.mark.parametrize(
    ("new", "reason", "detail"),
    [
        (None, "response_missing", "request 0 has no response"),
        ({}, "output_missing", "request 0: y"),
        ({"y": f32(1, 2), "z": f32(1)}, "output_extra", "request 0: z"),
        (
            {"y": f32(1, 2).astype("f8")},
            "dtype_differs",
            "output 'y' of request 0: float64, was float32",
        ),
        (
            {"y": f32(1, 2).astype(">f4")},
            "dtype_differs",
            "output 'y' of request 0: >f4, was float32",
        ),
        (
            {"y": np.array([b"", b""])},
            "dtype_differs",
            "output 'y' of request 0: BYTES, was float32",
        ),
        (
            {"y": f32(1, 2).reshape(1, 2)},
            "shape_differs",
            "output 'y' of request 0: (1, 2), was (2,)",
        ),
    ],
)
def test_another_structure_fails_every_class(change_class, new, reason, detail):
    found = compare([({"y": f32(1, 2)}, new, None)], change_class)
    assert found.gates == [Gate(name="correctness", result=FAIL, reason=reason, detail=detail)]


def test_nothing_compared_decides_nothing():
    assert answers(compare([], EXACT)) == [("correctness", INCONCLUSIVE, "nothing_compared")]


def test_fixed_width_and_object_strings_are_one_kind():
    old, new = np.array([b"ab", b"c"]), np.array([b"ab", b"c"], dtype=object)
    assert only_reason(old, new) == "outputs_identical"


@pytest.mark.parametrize(
    ("old", "message"),
    [
        (np.zeros(1, dtype=np.complex64), "dtype complex64, which no gate can compare"),
        (np.zeros(1, dtype=np.longdouble), "which no gate can compare"),
        (np.array([1.5, None], dtype=object), "holds float, not bytes or text"),
    ],
)
def test_what_cannot_be_compared_is_invalid_input(old, message):
    with pytest.raises(InvalidInput, match=message):
        judge(old, old)


def test_a_baseline_that_changes_its_dtype_is_invalid_input():
    triples = [({"y": y}, {"y": y}, None) for y in (f32(1), np.array([1]))]
    with pytest.raises(InvalidInput, match="changes from float32 to int64"):
        compare(triples, EXACT)


# --- reorder


def ones(n, dtype=np.float32):
    return np.ones(n, dtype=dtype)


def moved(old, by, count=1):
    new = old.copy()
    new[:count] += np.asarray(by, dtype=old.dtype)
    return new


@pytest.mark.parametrize(
    ("elements", "by", "count", "reason"),
    [
        (1000, 9e-5, 1000, "within_limits"),
        (1000, 5e-4, 1, "within_limits"),  # one in a thousand may lie beyond the limit
        (1000, 5e-4, 2, "too_many_outliers"),
        (999, 5e-4, 1, "too_many_outliers"),
        (1000, 1.1e-3, 1, "beyond_ten_times"),
        (1, 1.1e-4, 1, "too_many_outliers"),
    ],
)
def test_reorder_holds_float32_to_its_limits(elements, by, count, reason):
    old = ones(elements)
    new = moved(old, by, count)
    assert judge(old, new, REORDER, referee=(old + new) / 2).gates[0].reason == reason


@pytest.mark.parametrize(
    ("dtype", "by", "reason"),
    [
        (np.float16, 2**-10, "within_limits"),
        (np.float16, 2**-9, "too_many_outliers"),
        (np.float64, 9e-5, "within_limits"),
        (np.float64, 2e-4, "too_many_outliers"),
    ],
)
def test_reorder_limits_go_by_dtype(dtype, by, reason):
    old = ones(100, dtype)
    assert judge(old, moved(old, by), REORDER, referee=old.astype("f8")).gates[0].reason == reason


def test_reorder_limits_shrink_with_the_rms_of_small_outputs_and_do_not_grow():
    small, large = ones(100) * np.float32(0.01), ones(100) * np.float32(100)
    assert judge(small, moved(small, 5e-6), REORDER).gates[0].reason == "too_many_outliers"
    assert judge(small, moved(small, 5e-7), REORDER).gates[0].reason == "within_limits"
    assert judge(large, moved(large, 5e-4), REORDER).gates[0].reason == "too_many_outliers"
    zero = np.zeros(100, dtype=np.float32)
    assert judge(zero, moved(zero, 1e-30), REORDER).gates[0].reason == "beyond_ten_times"


def test_reorder_limits_hold_per_request_and_tensor():
    old, new = ones(1000), moved(ones(1000), 5e-4, 2)
    calm = ({"y": old}, {"y": old}, None)
    found = compare([calm] * 9 + [({"y": old}, {"y": new}, None)], REORDER)
    assert found.gates[0].reason == "too_many_outliers"
    assert found.gates[0].detail.startswith("output 'y' of request 9: 2 of 1000 elements beyond")


def test_reorder_keeps_integers_and_strings_exact():
    for old, new in (([1, 2], [1, 3]), ([b"a"], [b"b"])):
        assert only_reason(np.array(old), np.array(new), REORDER) == "outputs_differ"


def test_limits_can_be_tightened_but_not_loosened():
    old = ones(100)
    tight = Limits(float32=1e-6)
    assert (
        judge(old, moved(old, 5e-6), REORDER, limits=tight).gates[0].reason == "too_many_outliers"
    )
    for loose in ({"float32": 2e-4}, {"float16": 2e-3}, {"float32": 0.0}, {"float16": math.nan}):
        with pytest.raises(InvalidInput, match="may be tightened only"):
            Limits(**loose)


# --- referee


@pytest.mark.parametrize(
    ("old_error", "new_error", "answer"),
    [
        ([2e-6, 0], [4e-6, 0], (PASS, "within_referee_error")),
        ([2e-6, 0], [0, 0], (PASS, "within_referee_error")),
        ([2e-6, 0], [0, 4.1e-6], (FAIL, "worse_than_referee_allows")),
        ([0, 0], [1e-12, 0], (FAIL, "worse_than_referee_allows")),
    ],
)
def test_reorder_allows_twice_the_baselines_own_error(old_error, new_error, answer):
    truth = np.array([1.0, 1.0])
    found = judge(truth + old_error, truth + new_error, REORDER, referee=truth)
    gate = found.gates[1]
    assert (gate.name, gate.result, gate.reason) == ("referee", *answer)


def test_the_tail_of_the_error_counts_as_well_as_its_maximum():
    truth = np.ones(10_000)
    old, new = truth.copy(), truth.copy()
    old[0], new[:11] = 1 + 5e-5, 1 + 2e-5  # p99.9 is the eleventh largest
    gate = judge(old, new, REORDER, referee=truth).gates[1]
    assert gate.reason == "worse_than_referee_allows"
    assert gate.detail == "output 'y': p99.9 error 2e-05, baseline's 0"


def test_a_reordering_without_a_referee_is_not_decided_unless_nothing_moved():
    old = ones(10)
    found = judge(old, moved(old, 1e-6), REORDER)
    assert answers(found) == [
        ("correctness", PASS, "within_limits"),
        ("referee", INCONCLUSIVE, "no_referee"),
    ]
    assert not found.passed
    assert judge(old, old, REORDER).passed


def test_a_comparison_may_leave_the_referee_to_another_one():
    old = ones(10)
    assert judge(old, moved(old, 1e-6), REORDER, referee_required=False).passed


@pytest.mark.parametrize(
    ("referee", "message"),
    [
        ({"z": np.zeros(2)}, "the server has no such output"),
        ({"y": np.zeros((1, 2))}, r"has shape \(1, 2\), the server's has \(2,\)"),
        ({"y": f32(1, 2)}, "must be finite float64, not float32"),
        ({"y": np.array([math.nan, 1])}, "must be finite float64"),
    ],
)
def test_a_referee_that_does_not_fit_is_invalid_input(referee, message):
    with pytest.raises(InvalidInput, match=message):
        compare([({"y": f32(1, 2)}, {"y": f32(1, 2)}, referee)], REORDER)


# --- config and approximate


def test_config_must_match_where_the_baseline_repeats_itself():
    old = ones(100)
    new = moved(old, 1e-6)
    assert only_reason(old, new, CONFIG) == "outputs_differ"
    assert only_reason(old, new, CONFIG, reproducible={"y"}) == "outputs_differ"


def test_config_is_held_to_the_reorder_limits_where_the_baseline_moves_too():
    old = ones(100)
    free = {"reproducible": frozenset()}
    assert judge(old, moved(old, 1e-6), CONFIG, **free).passed
    assert only_reason(old, moved(old, 5e-4), CONFIG, **free) == "too_many_outliers"
    worse = judge(old, moved(old, 1e-6), CONFIG, referee=old, **free)
    assert worse.gates[1].reason == "worse_than_referee_allows"
    reason = only_reason(np.array([1]), np.array([2]), CONFIG, **free)
    assert reason == "baseline_not_reproducible"


def test_reproducible_outputs_are_those_that_two_answers_share_bit_for_bit():
    same, first, second = f32(1, 2), f32(1), f32(-1)
    repeats = [
        ({"a": same, "b": first, "c": same}, {"a": same.copy(), "b": first, "c": same[:1]}),
        ({"a": same, "b": first, "d": same}, {"a": same, "b": second}),
    ]
    assert reproducible_outputs(repeats) == {"a"}


def test_approximate_asks_for_finite_outputs_and_leaves_the_rest_to_the_metric():
    found = judge(ones(10), ones(10) * 3, APPROXIMATE)
    assert answers(found) == [("correctness", PASS, "outputs_finite")]
    assert found.rows[0].limit is None
    assert found.rows[0].max_abs == 2.0


# --- what the baseline does not repeat, and what an approximation may move


def test_what_must_match_and_the_baseline_does_not_repeat_decides_nothing():
    moved_too = {"reproducible": frozenset()}
    for change_class, old, new in (
        (EXACT, f32(1), f32(2)),
        (REORDER, np.array([b"a"]), np.array([b"b"])),
        (APPROXIMATE, np.array([1]), np.array([2])),
    ):
        (gate,) = judge(old, new, change_class, **moved_too).gates
        assert (gate.result, gate.reason) == (INCONCLUSIVE, "baseline_not_reproducible")
        assert gate.detail == "the unmodified stack does not repeat y bit for bit"
        assert judge(old, old, change_class, **moved_too).passed
        assert only_reason(old, new, change_class, reproducible={"y"}) == "outputs_differ"


def test_what_the_baseline_repeats_fails_whatever_else_moves():
    old, new = {"y": f32(1), "z": f32(1)}, {"y": f32(2), "z": f32(2)}
    (gate,) = compare([(old, new, None)], EXACT, reproducible={"z"}).gates
    assert (gate.result, gate.reason) == (FAIL, "outputs_differ")
    assert "output 'z'" in gate.detail
    (gate,) = compare([(old, {**new, "z": f32(1)}, None)], EXACT, reproducible={"z"}).gates
    assert gate.reason == "baseline_not_reproducible"


def test_what_the_baseline_does_not_repeat_may_still_not_be_broken():
    free = {"reproducible": frozenset()}
    assert only_reason(f32(1), f32(math.nan), EXACT, **free) == "non_finite"
    assert only_reason(f32(1), f32(1, 2), EXACT, **free) == "shape_differs"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (np.array([1, 2]), np.array([2, 1])),
        (np.array([b"a", b"b"]), np.array([b"b", b"a"])),
        (np.array([True]), np.array([False])),
    ],
)
def test_an_approximation_moves_integers_and_strings_where_they_are_named_only(old, new):
    assert only_reason(old, new, APPROXIMATE) == "outputs_differ"
    assert only_reason(old, new, APPROXIMATE, movable=["z"]) == "outputs_differ"
    assert only_reason(old, new, APPROXIMATE, movable=["y"]) == "outputs_finite"


def test_floats_that_are_not_among_the_named_stay_within_the_limits_of_a_reordering():
    old = ones(100)
    assert judge(old, moved(old, 1e-6), APPROXIMATE, movable=["z"]).passed
    assert only_reason(old, moved(old, 5e-4), APPROXIMATE, movable=["z"]) == "too_many_outliers"
    found = judge(old, moved(old, 0.5), APPROXIMATE, movable=["y"])
    assert answers(found) == [("correctness", PASS, "outputs_finite")]
    assert found.rows[0].limit is None


def test_the_errors_of_several_comparisons_are_judged_together():
    truth, errors = np.ones(10), {}
    first = [({"y": truth + 5e-5}, {"y": truth + 5e-5}, {"y": truth})]
    assert compare(first, REORDER, errors=errors).passed
    second = [({"y": truth}, {"y": truth + 9e-5}, {"y": truth})]
    assert compare(second, REORDER, errors=errors, referee_required=False).passed
    alone = compare(second, REORDER)
    assert alone.gates[1].reason == "worse_than_referee_allows"
    third = [({"y": truth}, {"y": truth + 9.9e-5}, None)]  # nobody asked the referee here
    found = compare(third, REORDER, errors=errors, referee_required=False)
    assert answers(found)[1:] == [("referee", PASS, "within_referee_error")]
    (row,) = refereed(alone.rows, errors)
    assert (row.referee_requests, row.referee_max_candidate) == (2, pytest.approx(9e-5))
    assert refereed(alone.rows, {}) == alone.rows


# --- the table


def test_the_table_says_what_was_compared():
    truth = np.linspace(0.5, 1.5, 2000)
    old = truth.astype(np.float32)
    new = old.copy()
    new[0] += np.float32(2e-4)
    new[1] += np.float32(5e-5)
    words = np.array([b"x", b"y"], dtype=object)
    requests = [
        ({"y": old, "w": words}, {"y": new, "w": words}, {"y": truth}),
        ({"y": old, "w": words}, {"y": old, "w": words}, None),
    ]
    y, w = compare(requests, REORDER).rows
    error = np.abs(old.astype(np.float64) - truth)
    worse = np.abs(new.astype(np.float64) - truth)
    assert y == OutputRow(
        output="y",
        dtype="float32",
        requests=2,
        elements=4000,
        differing=2,
        max_abs=float(new[0].astype("f8") - old[0].astype("f8")),
        p999_abs=0.0,
        outliers=1,
        limit=1e-4,
        referee_max_baseline=error.max(),
        referee_max_candidate=worse.max(),
        referee_p999_baseline=np.sort(error)[-3],
        referee_p999_candidate=np.sort(worse)[-3],
        referee_requests=1,
    )
    assert w == OutputRow(
        output="w",
        dtype="BYTES",
        requests=2,
        elements=4,
        differing=0,
        max_abs=0.0,
        p999_abs=0.0,
        outliers=0,
        limit=None,
    )


def test_the_tail_is_exact_beyond_its_capacity_and_an_upper_bound_far_beyond():
    values = np.random.default_rng(2).permutation(8 * TAIL_CAPACITY).astype(np.float64)
    tail = UpperTail()
    for chunk in np.array_split(values, 50):
        tail.add(chunk)
    assert tail.count == values.size
    assert tail.largest == values.size - 1
    assert tail.p999 == np.sort(values)[-1 - values.size // 1000]
    assert (UpperTail().largest, UpperTail().p999) == (0.0, 0.0)


def test_extreme_values_keep_the_table_finite():
    old, new = np.array([1.7e308, math.inf]), np.array([-1.7e308, 1.0])
    row = judge(old, new).rows[0]
    assert (row.differing, row.max_abs) == (2, np.finfo(np.float64).max)
