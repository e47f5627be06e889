"""Salted requests: new content, the same work, and nothing that a stack would refuse."""

from __future__ import annotations

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from layers.traffic.mutations import candidate_axes
from layers.traffic.salting import SALTS, SHRINK, UNSALTED, Salt, Salter, shrunk, take_raw
from layers.traffic.tensors import decode, encode

KINDS = {
    "price": "FP32",
    "tags": "INT64",
    "name": "BYTES",
    "half": "FP16",
    "flags": "FP32",
    "user": "FP64",
    "country": "BYTES",
}


def request(index: int, candidates: int | None = None) -> bytes:
    rng = np.random.default_rng(index)
    count = 3 + index % 5 if candidates is None else candidates
    tensors = {
        "price": rng.random((1, count)).astype(np.float32),
        "tags": rng.integers(0, 99, (1, count, 2)),
        "name": np.array([[b"n%d" % i * i for i in range(count)]], dtype=np.object_),
        "half": rng.random((1, count)).astype(np.float16),
        "flags": np.array([[0.0, 1.0, 3.0]], dtype=np.float32),
        "user": np.array([[-0.5, np.nan, 7.25]]),
        "country": np.array([[b"NL"]], dtype=np.object_),
    }
    message = service_pb2.ModelInferRequest(model_name="m", id=str(index))
    for name, datatype in KINDS.items():
        message.inputs.add(name=name, datatype=datatype, shape=tensors[name].shape)
    data: bytes = encode(message.SerializeToString(), tensors, str(index))
    return data


REQUESTS = [request(i) for i in range(20)]
AXES = candidate_axes([decode(message) for message in REQUESTS])
FULL, PERMUTE, SHRINKING = SALTS


def salted(salt: Salt, index: int = 4, seed: int = 1) -> dict[str, np.ndarray]:
    return decode(Salter(REQUESTS, AXES, salt).salted(index, np.random.default_rng(seed)))


def test_candidates_move_together_in_every_input():
    before, after = decode(REQUESTS[4]), salted(PERMUTE)
    order = [before["name"][0].tolist().index(name) for name in after["name"][0]]
    assert sorted(order) == list(range(7))
    assert order != list(range(7))
    for name in ("price", "tags", "half"):
        assert np.array_equal(after[name], before[name][:, order])
    for name in ("flags", "user", "country"):
        assert np.array_equal(after[name], before[name], equal_nan=name == "user")


def test_floats_beside_the_candidates_shrink_by_one_factor_of_at_most_two_percent():
    before, after = decode(REQUESTS[4]), salted(FULL)
    factors = after["user"][0, [0, 2]] / before["user"][0, [0, 2]]
    assert factors[0] == pytest.approx(factors[1], abs=1e-12)
    assert 1 - SHRINK <= factors[0] < 1
    assert np.isnan(after["user"][0, 1])
    assert np.array_equal(after["flags"], before["flags"])  # whole numbers are flags or counts


def test_one_candidate_alone_is_salted_in_its_own_floats():
    single = [request(1, candidates=1)]
    salter = Salter(single, AXES, FULL)
    before, after = decode(single[0]), decode(salter.salted(0, np.random.default_rng(1)))
    assert 1 - SHRINK <= float(after["price"][0, 0] / before["price"][0, 0]) < 1


def test_traffic_without_candidates_is_salted_in_its_floats():
    after = decode(Salter(REQUESTS, [], FULL).salted(4, np.random.default_rng(1)))
    before = decode(REQUESTS[4])
    assert not np.array_equal(after["price"], before["price"])
    assert np.array_equal(after["name"], before["name"])


def test_id_length_and_shapes_stay():
    made = Salter(REQUESTS, AXES, FULL).salted(4, np.random.default_rng(3))
    old, new = (service_pb2.ModelInferRequest.FromString(data) for data in (REQUESTS[4], made))
    assert (new.id, len(made)) == (old.id, len(REQUESTS[4]))
    assert [(t.name, list(t.shape)) for t in new.inputs] == [
        (t.name, list(t.shape)) for t in old.inputs
    ]


def test_without_salt_a_request_is_as_recorded():
    salter = Salter(REQUESTS, AXES, UNSALTED)
    assert salter.salted(3, np.random.default_rng(1)) == REQUESTS[3] == salter.recorded(3)
    assert str(UNSALTED) == "as recorded"


def test_typed_contents_become_raw_ones():
    message = service_pb2.ModelInferRequest(model_name="m")
    tensor = message.inputs.add(name="x", datatype="FP32", shape=[2])
    tensor.contents.fp32_contents.extend([0.5, 0.25])
    salter = Salter([message.SerializeToString()], [], FULL)
    values = decode(salter.salted(0, np.random.default_rng(1)))["x"]
    assert values[0] / values[1] == pytest.approx(2)
    assert 0.49 <= values[0] < 0.5


@pytest.mark.parametrize(
    ("raw", "datatype", "shape"),
    [
        (b"\x01\x00\x00\x00", "BYTES", (1,)),
        (b"\x00\x00\x00\x00", "BYTES", (2,)),
        (b"\x00" * 7, "FP32", (2,)),
        (b"", "FP32", (2,)),
    ],
)
def test_contents_that_do_not_fill_their_shape_are_refused(raw, datatype, shape):
    with pytest.raises(ValueError, match=r"fill shape|beyond the contents"):
        take_raw(raw, datatype, shape, 0, np.array([1, 0]))


def test_strings_are_taken_along_any_axis():
    names = np.array([[[b"a"], [b"bb"]], [[b""], [b"d"]]], dtype=np.object_)
    raw = b"".join(len(s).to_bytes(4, "little") + s for s in names.flat)
    taken = take_raw(raw, "BYTES", names.shape, 1, np.array([1, 0]))
    expected = names[:, [1, 0]]
    assert taken == b"".join(len(s).to_bytes(4, "little") + s for s in expected.flat)


def test_integers_are_never_scaled():
    raw = np.arange(4, dtype=np.int64).tobytes()
    assert shrunk(raw, "INT64", np.random.default_rng(1)) == raw
