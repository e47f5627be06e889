"""Mutated requests: what changes, what stays, and that shapes stay consistent."""

from __future__ import annotations

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from layers.traffic.mutations import LONG_STRING_BYTES, Mutator
from layers.traffic.tensors import decode, encode
from tests.grpc_peer import record


def ragged(index: int) -> bytes:
    """Candidates vary over requests, and so does a history whose lengths are an input."""
    rng = np.random.default_rng(index)
    candidates, history = 3 + index % 7, 20 + index * 3 % 11
    lengths = np.array([history // 2, history - history // 2], dtype=np.int32)
    tensors = {
        "price": rng.random((1, candidates, 1)).astype(np.float32),
        "item": np.arange(candidates, dtype=np.int64)[None] + 100,
        "name": np.array([[b"n%d" % i for i in range(candidates)]], dtype=np.object_),
        "seen": rng.integers(0, 50, (1, history)).astype(np.int64) + 1000,
        "seen_lengths": lengths[None],
        "user": np.array([[float(index)]], dtype=np.float64),
    }
    kinds = dict(zip(tensors, ("FP32", "INT64", "BYTES", "INT64", "INT32", "FP64"), strict=True))
    message = service_pb2.ModelInferRequest(model_name="m")
    for name, values in tensors.items():
        message.inputs.add(name=name, datatype=kinds[name], shape=values.shape)
        message.raw_input_contents.append(
            b"".join(len(s).to_bytes(4, "little") + s for s in values.flat)
            if values.dtype == np.object_
            else values.tobytes()
        )
    data: bytes = message.SerializeToString()
    return data


REQUESTS = [ragged(i) for i in range(40)]


@pytest.fixture(scope="module")
def made():
    return [decode(message) for message in Mutator(REQUESTS).requests(7, 80)]


def test_the_candidate_dimension_is_found():
    assert Mutator(REQUESTS).candidate_axes == [("item", 1), ("name", 1), ("price", 1)]


def test_traffic_without_a_varying_size_has_no_candidate_dimension():
    mutator = Mutator([ragged(1)] * 3)
    assert mutator.candidate_axes == []
    assert len(mutator.requests(1, 8)) == 8


def test_every_mutated_request_has_consistent_shapes(made):
    for tensors in made:
        candidates = tensors["price"].shape[1]
        assert tensors["item"].shape == tensors["name"].shape == (1, candidates)
        assert tensors["price"].shape == (1, candidates, 1)
        assert tensors["seen_lengths"].sum() == tensors["seen"].shape[1]
        assert {name: values.dtype for name, values in tensors.items()} == {
            name: values.dtype for name, values in decode(REQUESTS[0]).items()
        }


def test_numbers_stay_finite_and_integers_within_what_was_seen(made):
    for tensors in made:
        assert np.isfinite(tensors["price"]).all()
        assert set(tensors["item"].flat) <= set(range(100, 110))


def test_some_keep_one_candidate_and_some_reorder(made):
    assert all(tensors["item"].shape == (1, 1) for tensors in made[3::4])
    reordered = [tensors["item"][0] for tensors in made[2::4]]
    assert all(sorted(items) == list(range(100, 100 + len(items))) for items in reordered)
    assert sum(items.tolist() != sorted(items) for items in reordered) > len(reordered) // 2


def test_strings_become_empty_unknown_long_and_not_utf8(made):
    strings = {value for tensors in made[1::4] for value in tensors["name"].flat}
    assert {b"", b"never-seen-before", b"\xff\xfe\x00\x80", b"x" * LONG_STRING_BYTES} <= strings


def test_optional_inputs_are_left_out_of_some():
    made = [
        decode(message) for message in Mutator(REQUESTS, ["price", "not-there"]).requests(7, 50)
    ]
    names = set(decode(REQUESTS[0]))
    assert all(set(tensors) == names - {"price"} for tensors in made[4::5])
    assert all(set(tensors) == names for kind in range(4) for tensors in made[kind::5])


def test_what_a_recorded_request_lacks_is_optional():
    whole = decode(REQUESTS[0])
    without = {name: values for name, values in whole.items() if name != "price"}
    shorter = encode(REQUESTS[0], without, "shorter")
    assert set(decode(shorter)) == set(without)
    made = [decode(m) for m in Mutator([*REQUESTS[:3], shorter]).requests(1, 40)]
    assert any("price" not in tensors for tensors in made[4::5])


def test_never_are_all_inputs_left_out():
    names = list(decode(REQUESTS[0]))
    made = [decode(message) for message in Mutator(REQUESTS, names).requests(3, 50)]
    assert all(tensors for tensors in made)
    assert len({len(tensors) for tensors in made[4::5]}) > 1


def test_numbers_move(made):
    recorded = {value for message in REQUESTS for value in decode(message)["price"].flat}
    assert any(value not in recorded for tensors in made[0::4] for value in tensors["price"].flat)


def test_the_seed_decides():
    mutator = Mutator(REQUESTS)
    assert mutator.requests(3, 8) == mutator.requests(3, 8)
    assert mutator.requests(3, 8) != mutator.requests(4, 8)


def test_traffic_offers_mutated_requests(tmp_path):
    made = record(tmp_path).mutated(1, 4)
    assert [sorted(decode(message)) for message in made] == [["s", "x"]] * 4
