"""Facts about the correctness gates that hold for any outputs."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from layers.base import ChangeClass
from layers.evidence import GateResult
from layers.gates.correctness import Limits, compare, reproducible_outputs
from layers.gates.metric import non_inferior
from layers.gates.tensors import UpperTail, bits_differ

shapes = hnp.array_shapes(min_dims=1, max_dims=3, max_side=6)
dtypes = st.sampled_from(["f2", "f4", "f8", "i4", "i8", "u1", "bool"])
numbers = hnp.arrays(dtypes, shapes)
strings = hnp.arrays(object, shapes, elements=st.binary(max_size=6))
tensors = numbers | strings
responses = st.dictionaries(st.sampled_from("abc"), tensors, min_size=1, max_size=3)
finite = hnp.arrays(np.float32, shapes, elements=st.floats(-100, 100, width=32))

quick = settings(deadline=None, max_examples=100)


def copy(response):
    return {name: array.copy() for name, array in response.items()}


@quick
@given(responses)
def test_exact_accepts_a_copy_whatever_it_holds(response):
    found = compare([(response, copy(response), None)], ChangeClass.EXACT)
    assert found.passed
    assert [row.differing for row in found.rows] == [0] * len(response)


@quick
@given(numbers, st.data())
def test_exact_rejects_any_single_flipped_bit(array, data):
    raw = bytearray(array.tobytes())
    position = data.draw(st.integers(0, len(raw) - 1))
    raw[position] ^= 1 if array.dtype == np.bool_ else 1 << data.draw(st.integers(0, 7))
    flipped = np.frombuffer(bytes(raw), array.dtype).reshape(array.shape)
    (gate,) = compare([({"y": array}, {"y": flipped}, None)], ChangeClass.EXACT).gates
    assert gate.result is GateResult.FAIL
    assert gate.reason in {"outputs_differ", "non_finite"}


@quick
@given(tensors)
def test_bits_do_not_depend_on_the_memory_layout(array):
    turned = np.asfortranarray(array)
    assert not bits_differ(array, turned).any()
    assert not bits_differ(array[::-1], array[::-1].copy()).any()


@quick
@given(finite, st.sampled_from([ChangeClass.REORDER, ChangeClass.CONFIG]), st.data())
def test_what_passes_lies_within_ten_limits_everywhere(old, change_class, data):
    change = data.draw(
        hnp.arrays(np.float32, old.shape, elements=st.floats(-(2**-9), 2**-9, width=32))
    )
    new = old + change
    found = compare(
        [({"y": old}, {"y": new}, None)], change_class, reproducible=(), referee_required=False
    )
    limit = 1e-4 * min(1.0, float(np.sqrt(np.mean(old.astype("f8") ** 2))))
    deviation = np.abs(new.astype("f8") - old.astype("f8"))
    beyond = int((deviation > limit).sum())
    allowed = beyond * 1000 <= old.size and deviation.max() <= 10 * limit
    assert found.passed == (allowed or not deviation.any())
    assert found.rows[0].outliers == beyond
    assert found.rows[0].max_abs == deviation.max()


@quick
@given(finite, st.data())
def test_tighter_limits_never_pass_more(old, data):
    change = data.draw(
        hnp.arrays(np.float32, old.shape, elements=st.floats(-(2**-12), 2**-12, width=32))
    )
    requests = [({"y": old}, {"y": old + change}, None)]
    loose, tight = (
        compare(requests, ChangeClass.REORDER, limits, referee_required=False).passed
        for limits in (Limits(), Limits(float32=1e-5))
    )
    assert loose or not tight


@quick
@given(finite, st.data())
def test_a_candidate_as_good_as_the_baseline_satisfies_the_referee(truth, data):
    truth = truth.astype(np.float64)
    error = data.draw(hnp.arrays(np.float64, truth.shape, elements=st.floats(-1e-6, 1e-6)))
    old, new = truth + error, truth - error
    found = compare([({"y": old}, {"y": new}, {"y": truth})], ChangeClass.REORDER)
    row = found.rows[0]
    assert row.referee_max_baseline == np.abs(old - truth).max()
    assert row.referee_max_candidate == np.abs(new - truth).max()
    if row.referee_max_candidate <= 2 * row.referee_max_baseline:
        assert all(gate.reason != "worse_than_referee_allows" for gate in found.gates)


@quick
@given(responses, st.integers(1, 4))
def test_the_order_of_requests_does_not_change_the_table(response, count):
    assume(all(array.dtype.kind != "f" or np.isfinite(array).all() for array in response.values()))
    other = {name: np.flip(array) for name, array in response.items()}
    requests = [(response, copy(response), None)] * count + [(other, copy(response), None)]
    there = compare(requests, ChangeClass.APPROXIMATE, movable="abc")
    back = compare(requests[::-1], ChangeClass.APPROXIMATE, movable="abc")
    assert there == back


@quick
@given(responses)
def test_a_response_reproduces_itself(response):
    assert reproducible_outputs([(response, copy(response))]) == response.keys()


@quick
@given(
    st.lists(hnp.arrays(np.float64, st.integers(0, 50), elements=st.floats(0, 1e300)), max_size=80)
)
def test_the_tail_is_a_quantile_of_all_values(chunks):
    tail = UpperTail()
    for chunk in chunks:
        tail.add(chunk)
    values = np.sort(np.concatenate([np.empty(0), *chunks]))
    assert tail.count == values.size
    if values.size:
        assert tail.largest == values[-1]
        assert np.mean(values <= tail.p999) >= 0.999
        assert np.mean(values < tail.p999) < 0.999 or tail.p999 == values[0]


@quick
@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=20),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_a_larger_margin_never_turns_a_metric_away(metric, first, second):
    worse = [value - 0.3 * i / len(metric) for i, value in enumerate(metric)]
    narrow, wide = sorted((first, second))
    if non_inferior(metric, worse, narrow).gate.result is GateResult.PASS:
        assert non_inferior(metric, worse, wide).gate.result is GateResult.PASS
    shifted = non_inferior(metric, worse, narrow)
    assert shifted.difference == pytest.approx(np.mean(worse) - np.mean(metric), abs=1e-9)
