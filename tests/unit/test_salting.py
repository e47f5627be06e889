"""Renewed requests: new content, the same work, and nothing that a stack would refuse."""

from __future__ import annotations

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from layers.record.answers import SaltRecord
from layers.traffic.envelope import ID_LENGTH, content
from layers.traffic.salting import SALTS, SHRINK, UNSALTED, Salt, Salter, shrunk, take_raw
from layers.traffic.structure import candidate_axes
from layers.traffic.tensors import decode, encode

KINDS = {
    "price": "FP32",
    "tags": "INT64",
    "name": "BYTES",
    "half": "FP16",
    "flags": "FP32",
    "user": "FP64",
    "country": "BYTES",
    "sorted": "FP32",
    "seen": "INT64",
    "seen_lengths": "INT32",
}


def request(index: int, candidates: int | None = None) -> bytes:
    rng = np.random.default_rng(index)
    count = 3 + index % 5 if candidates is None else candidates
    history = 4 + index % 3
    tensors = {
        "price": rng.random((1, count)).astype(np.float32),
        "tags": rng.integers(0, 99, (1, count, 2)),
        "name": np.array([[b"n%d" % i * i for i in range(count)]], dtype=np.object_),
        "half": rng.random((1, count)).astype(np.float16),
        "flags": np.array([[0.0, 1.0, 3.0]], dtype=np.float32),
        "user": np.array([[-0.5 - index, np.nan, 7.25 + index]]),
        "country": np.array([[b"NL" if index % 2 else b"DE"]], dtype=np.object_),
        "sorted": np.sort(rng.random((1, 6))).astype(np.float32),
        "seen": rng.integers(10**6, 10**7, (1, history)),
        "seen_lengths": np.array([[1, history - 1]], dtype=np.int32),
    }
    message = service_pb2.ModelInferRequest(model_name="m", id=str(index))
    for name, datatype in KINDS.items():
        message.inputs.add(name=name, datatype=datatype, shape=tensors[name].shape)
    data: bytes = encode(message.SerializeToString(), tensors, str(index))
    return data


REQUESTS = [request(i) for i in range(30)]
RECORDED = [decode(message) for message in REQUESTS]
AXES = candidate_axes(RECORDED)
FULL, OWN, PERMUTE, SHRINKING = SALTS


def salted(salt: Salt, index: int = 4, seed: int = 1) -> dict[str, np.ndarray]:
    return decode(Salter(REQUESTS, AXES, salt).salted(index, np.random.default_rng(seed)))


def recorded(name: str) -> set[object]:
    return {value for tensors in RECORDED for value in tensors[name].flat}


def test_candidates_move_together_in_every_input():
    before, after = RECORDED[4], salted(PERMUTE)
    order = [before["name"][0].tolist().index(name) for name in after["name"][0]]
    assert sorted(order) == list(range(7))
    assert order != list(range(7))
    for name in ("price", "tags", "half"):
        assert np.array_equal(after[name], before[name][:, order])
    for name in ("flags", "user", "country", "sorted", "seen", "seen_lengths"):
        assert np.array_equal(after[name], before[name], equal_nan=name == "user")


def test_the_strongest_salt_makes_rows_that_no_request_has():
    rows = {
        (float(p), float(h))
        for tensors in RECORDED
        for p, h in zip(tensors["price"][0], tensors["half"][0], strict=True)
    }
    recombined = Salter(REQUESTS, AXES, Salt(permute=True, shrink=False, recombine=True))
    found = [
        (float(p), float(h))
        for seed in range(20)
        for tensors in [decode(recombined.salted(4, np.random.default_rng(seed)))]
        for p, h in zip(tensors["price"][0], tensors["half"][0], strict=True)
    ]
    assert {p for p, _ in found} <= {p for p, _ in rows}  # recorded prices, beside other halves
    assert sum(row in rows for row in found) < len(found) / 3


def test_its_columns_come_from_requests_with_as_many_candidates_or_more():
    for index in range(len(REQUESTS)):
        after, before = salted(FULL, index, index), RECORDED[index]
        for name in KINDS:
            assert after[name].shape == before[name].shape
            assert after[name].dtype == before[name].dtype
        assert set(after["tags"].flat) <= recorded("tags")
        assert set(after["name"].flat) <= recorded("name")


def test_values_beside_the_candidates_come_from_requests_of_the_same_layout():
    found = [salted(FULL, 4, seed) for seed in range(30)]
    assert {x for tensors in found for x in tensors["country"].flat} == {b"NL", b"DE"}
    assert len({x for tensors in found for x in tensors["seen"].flat}) > 5
    for tensors in found:  # what counts others is the request's own
        assert tensors["seen_lengths"].tolist() == RECORDED[4]["seen_lengths"].tolist()
        assert tensors["seen"].shape == RECORDED[4]["seen"].shape


@pytest.mark.parametrize("salt", [FULL, OWN, SHRINKING], ids=str)
def test_every_fractional_float_is_new_and_a_little_smaller(salt):
    for name in ("price", "half"):
        before = recorded(name)
        after = salted(salt)[name].ravel()
        assert sum(value in before for value in after) <= len(after) / 2  # halves are coarse
        largest, least = float(max(before)), float(min(before))
        assert (after <= largest).all()
        assert (after.astype(np.float64) >= least * (1 - SHRINK) * 0.998).all()
    assert np.array_equal(salted(salt)["flags"], RECORDED[4]["flags"])  # whole: flags or counts


def test_each_float_has_a_factor_of_its_own_but_where_they_are_sorted():
    before, after = RECORDED[4], salted(SHRINKING)
    factors = after["price"] / before["price"]
    assert len(set(factors.flat)) == factors.size
    assert (factors >= 1 - SHRINK * 1.001).all()
    assert (factors <= 1).all()
    one = after["sorted"] / before["sorted"]
    assert one == pytest.approx(np.full(one.shape, one[0, 0]), rel=1e-6)
    assert (np.diff(after["sorted"]) > 0).all()
    assert np.isnan(after["user"][0, 1])


def test_what_stays_a_value_of_the_recording_is_counted():
    salter = Salter(REQUESTS, AXES, FULL)
    salter.salted(4, np.random.default_rng(1))
    sizes = {name: values.size for name, values in RECORDED[4].items()}
    floats = sizes["price"] + sizes["half"] + sizes["sorted"] + sizes["user"] - 1  # one is missing
    assert salter.elements == sum(sizes.values())
    assert 0 <= salter.kept - (salter.elements - floats) <= 1  # a half may round to itself
    unsalted = Salter(REQUESTS, AXES, UNSALTED)
    unsalted.salted(4, np.random.default_rng(1))
    assert unsalted.kept == unsalted.elements == salter.elements


def test_two_copies_of_a_request_share_no_row():
    first, second = salted(FULL, seed=1), salted(FULL, seed=2)
    assert not set(first["price"].flat) & set(second["price"].flat)
    assert sorted(first["tags"].flat) != sorted(second["tags"].flat)


def test_the_largest_request_takes_its_own_rows_in_another_order():
    alone = [request(1, candidates=9), *REQUESTS]
    salter = Salter(alone, AXES, FULL)
    before, after = decode(alone[0]), decode(salter.salted(0, np.random.default_rng(1)))
    assert sorted(after["tags"].flat) == sorted(before["tags"].flat)
    assert after["tags"].tolist() != before["tags"].tolist()


@pytest.mark.parametrize("candidates", [0, 1])
def test_none_or_one_candidate_is_salted_in_what_else_there_is(candidates):
    single = [request(1, candidates=candidates)]
    before, after = (
        decode(message)
        for message in (single[0], Salter(single, AXES, FULL).salted(0, np.random.default_rng(1)))
    )
    assert after["price"].shape == before["price"].shape
    assert 1 - SHRINK <= float(after["user"][0, 2] / before["user"][0, 2]) < 1


def test_traffic_without_candidates_is_salted_in_its_floats():
    after = decode(Salter(REQUESTS, [], OWN).salted(4, np.random.default_rng(1)))
    assert not np.array_equal(after["price"], RECORDED[4]["price"])
    assert np.array_equal(after["name"], RECORDED[4]["name"])


@pytest.mark.parametrize("salt", [*SALTS, UNSALTED], ids=str)
def test_shapes_stay_and_the_id_is_new_each_time(salt):
    salter, rng = Salter(REQUESTS, AXES, salt), np.random.default_rng(3)
    old = service_pb2.ModelInferRequest.FromString(REQUESTS[4])
    ids = set()
    for _ in range(5):
        new = service_pb2.ModelInferRequest.FromString(salter.salted(4, rng))
        assert [(t.name, list(t.shape)) for t in new.inputs] == [
            (t.name, list(t.shape)) for t in old.inputs
        ]
        assert len(new.id) == ID_LENGTH
        ids.add(new.id)
    assert len(ids) == 5


def test_without_salt_the_content_is_as_recorded():
    salter = Salter(REQUESTS, AXES, UNSALTED)
    assert content(salter.salted(3, np.random.default_rng(1))) == content(REQUESTS[3])
    assert salter.recorded(3) == REQUESTS[3]


def test_a_salt_says_what_it_does():
    assert [str(salt) for salt in (*SALTS, UNSALTED)] == [
        "rows of several requests and floats up to 2% smaller, each by itself",
        "candidates in another order and floats up to 2% smaller, each by itself",
        "candidates in another order",
        "floats up to 2% smaller, each by itself",
        "as recorded",
    ]


def test_the_salt_of_an_older_journal_can_still_be_read():
    record = SaltRecord.model_validate_json('{"permute": true, "shrink": true}')
    assert Salt(**record.model_dump()) == OWN


def test_typed_contents_become_raw_ones():
    message = service_pb2.ModelInferRequest(model_name="m")
    tensor = message.inputs.add(name="x", datatype="FP32", shape=[2])
    tensor.contents.fp32_contents.extend([0.5, 0.25])
    salter = Salter([message.SerializeToString()], [], FULL)
    values = decode(salter.salted(0, np.random.default_rng(1)))["x"]
    assert values[0] / values[1] == pytest.approx(2)  # sorted: one factor
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


def test_integers_are_never_scaled_and_rows_keep_their_own_order():
    rng = np.random.default_rng(1)
    raw = np.arange(4, dtype=np.int64).tobytes()
    assert shrunk(raw, "INT64", (4,), rng) == (raw, 0)
    rows = np.array([[1.5, 0.5, 0.25], [9.5, 8.5, 7.5]], dtype=np.float32)
    after, new = shrunk(rows.tobytes(), "FP32", rows.shape, rng)
    assert new == 6
    assert (np.diff(np.frombuffer(after, np.float32).reshape(2, 3)) < 0).all()


def test_two_byte_floats_without_a_type_in_numpy_are_new_too():
    bits = np.array([0x3FC1, 0x4012, 0x3E99, 0x7FC0], dtype="<u2")
    after, new = shrunk(bits.tobytes(), "BF16", (4,), np.random.default_rng(1))
    assert len(after) == bits.nbytes
    assert new == int(np.count_nonzero(np.frombuffer(after, "<u2") != bits)) > 0
