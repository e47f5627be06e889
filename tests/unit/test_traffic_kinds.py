"""Every kind of change by itself: what it makes of a request, and that the rest stays."""

from __future__ import annotations

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from layers.traffic import strings
from layers.traffic.kinds import BY_NAME, KINDS, MANY, MOST_ROWS, Draft
from layers.traffic.mutations import Mutator
from layers.traffic.structure import Known
from layers.traffic.tensors import decode, encode

DATATYPES = {
    "price": "FP32",
    "half": "FP16",
    "clicks": "INT64",
    "slot": "UINT8",
    "name": "BYTES",
    "flag": "BOOL",
    "event": "INT64",
    "dwell": "FP32",
}
LARGEST, LEAST = 9, 2  # candidates


def request(index: int) -> bytes:
    rng = np.random.default_rng(index)
    count, history = LEAST + index % (LARGEST - LEAST + 1), 3 + index % 5
    tensors = {
        "price": rng.lognormal(2, 1, (1, count)).astype(np.float32),
        "half": rng.random((1, count)).astype(np.float16),
        "clicks": rng.integers(5, 60, (1, count)),
        "slot": rng.integers(0, 9, (1, count)).astype(np.uint8),
        "name": np.array([[b"Name %d" % i for i in range(count)]], dtype=np.object_),
        "flag": rng.random((1, count)) < 0.5,
        "event": rng.integers(10**6, 10**7, (1, history)),
        "dwell": rng.random((1, history)).astype(np.float32) + np.float32(0.5),
    }
    message = service_pb2.ModelInferRequest(model_name="m", id=str(index))
    for name, values in tensors.items():
        message.inputs.add(name=name, datatype=DATATYPES[name], shape=values.shape)
    data: bytes = encode(message.SerializeToString(), tensors, str(index))
    return data


REQUESTS = [request(i) for i in range(40)]
RECORDED = [decode(message) for message in REQUESTS]
MUTATOR = Mutator(REQUESTS, outputs=["score", "rank"])
TYPED = Mutator([encode(m, {"price": decode(m)["price"]}, "") for m in REQUESTS])


def messages(kind: str, count: int = 40, mutator: Mutator = MUTATOR) -> list[bytes]:
    rng = np.random.default_rng(1)
    found = [mutator.one(BY_NAME[kind], rng) for _ in range(count)]
    assert None not in found
    return [message for message in found if message is not None]


def made(kind: str, count: int = 40) -> list[dict[str, np.ndarray]]:
    return [decode(message) for message in messages(kind, count)]


def values(kind: str, name: str, count: int = 40) -> np.ndarray:
    return np.concatenate([tensors[name].ravel() for tensors in made(kind, count)])


def test_names_are_unique_and_every_kind_can_be_made():
    assert len(BY_NAME) == len(KINDS)
    lacking = [k.name for k in KINDS if MUTATOR.one(k, np.random.default_rng(1)) is None]
    assert lacking == ["optional inputs left out", "typed contents"]  # none; FP16 has no such


@pytest.mark.parametrize("kind", [k.name for k in KINDS if k.values])
def test_a_kind_of_values_changes_values_of_its_types_alone_and_no_shape(kind):
    known = {tuple(r["clicks"].shape) for r in RECORDED}
    for tensors in made(kind):
        assert {tuple(tensors[name].shape) for name in ("price", "clicks", "name")} <= known
    touched = {"f": "price", "iu": "clicks", "O": "name", "b": "flag"}
    own = touched[BY_NAME[kind].values]
    for other in set(touched.values()) - {own}:
        recorded = {repr(r[other].tolist()) for r in RECORDED}
        assert {repr(tensors[other].tolist()) for tensors in made(kind)} <= recorded


@pytest.mark.parametrize("kind", [k.name for k in KINDS if k.values])
def test_one_input_of_several_may_be_changed_alone(kind):
    inputs = MUTATOR.inputs(BY_NAME[kind])
    rng = np.random.default_rng(2)
    message = MUTATOR.one(BY_NAME[kind], rng, inputs[:1])
    assert message is not None
    kept = decode(message)
    same = [r for r in RECORDED if all(np.array_equal(r[n], kept[n]) for n in inputs[1:])]
    assert same or len(inputs) == 1


def test_integers_are_drawn_within_beyond_and_far_from_what_was_recorded():
    least, largest = MUTATOR.known.whole["clicks"]
    recorded = {int(x) for r in RECORDED for x in r["clicks"].flat}
    assert (least, largest) == (min(recorded), max(recorded))
    assert set(values("integers of others", "clicks")) <= recorded
    between = values("integers between", "clicks")
    assert least <= between.min()
    assert between.max() <= largest
    events = {int(x) for r in RECORDED for x in r["event"].flat}
    new = set(values("integers between", "event").tolist()) - events
    assert new
    assert min(events) <= min(new) <= max(new) <= max(events)
    beyond = values("integers beyond", "clicks")
    assert {least - 1, largest + 1} <= set(beyond.tolist())
    assert beyond.min() >= least - 10
    far = set(values("integers at ends", "clicks", 200).tolist())
    assert {0, -1, 127, 128, 255, 256, 2**31, -(2**63), 2**63 - 1} <= far


def test_integers_never_leave_their_datatype():
    assert set(values("integers at ends", "slot").tolist()) >= {0, 127, 128, 255}
    assert values("integers beyond", "slot").min() == 0  # what lies below is held there
    assert values("integers beyond", "slot").max() <= 10


@pytest.mark.parametrize("name", ["price", "half"])
def test_floats_become_what_numbers_can_be(name):
    assert np.isnan(values("floats missing", name)).any()
    infinite = values("floats infinite", name)
    assert {np.inf, -np.inf} <= set(infinite[np.isinf(infinite)].tolist())
    ends = values("floats at their ends", name)
    info = np.finfo(ends.dtype)
    assert {info.max, info.min, info.smallest_subnormal} <= set(ends)
    assert (np.signbit(ends) & (ends == 0)).any()
    assert np.isfinite(ends).all()
    for tensors in made("floats equal"):
        assert len(set(tensors[name].flat)) == 1
    moved = values("floats moved", name)
    assert np.isfinite(moved).all()
    assert set(moved) - {x for r in RECORDED for x in r[name].flat}


STRINGS = [k.name for k in KINDS if k.values == "O"]


@pytest.mark.parametrize("kind", STRINGS)
def test_strings_are_drawn_anew_each_time(kind):
    recorded = {x for r in RECORDED for x in r["name"].flat}
    first, second = (
        {x for m in found for x in decode(m)["name"].flat} - recorded
        for found in (messages(kind)[:20], messages(kind)[20:])
    )
    assert first
    assert second
    if kind not in ("strings empty", "strings in another case", "strings spaced"):
        assert len(first & second) < min(len(first), len(second)) / 4


def test_what_strings_become():
    rng = np.random.default_rng(1)
    found = {
        make: {make(rng, b"Name 1") for _ in range(200)}
        for make in (strings.long, strings.not_utf8, strings.foreign, strings.spaced)
    }
    sizes = {len(x) for x in found[strings.long]}
    assert min(sizes) >= strings.LONG_STRING_BYTES // 2
    assert max(sizes) <= strings.LONG_STRING_BYTES
    assert all("\ufffd" in x.decode(errors="replace") for x in found[strings.not_utf8])
    assert all(x.decode() for x in found[strings.foreign])
    assert any(x.startswith(b"\xef\xbb\xbf") for x in found[strings.spaced])
    assert any(x.endswith((b" ", b"\n")) for x in found[strings.spaced])
    numbers = {strings.number(rng, b"") for _ in range(300)}
    assert {b"nan", b"-inf"} <= numbers
    assert any(x.isdigit() and x.startswith(b"0") for x in numbers)
    assert strings.cased(rng, b"Name 1") == b"nAME 1"
    assert strings.cased(rng, b"123").isupper()
    assert strings.empty(rng, b"x") == b""


def counts(kind: str) -> set[int]:
    found = set()
    for tensors in made(kind):
        sizes = {tensors[name].shape[1] for name in ("price", "half", "clicks", "name", "flag")}
        assert len(sizes) == 1
        found |= sizes
    return found


def test_the_number_of_candidates_becomes_none_one_two_and_far_more_than_recorded():
    assert counts("no candidates") == {0}
    assert counts("one candidate") == {1}
    assert counts("two candidates") == {2}
    many = counts("many candidates")
    assert min(many) > LARGEST
    assert max(many) <= MANY * LARGEST
    assert max(many) > 2 * LARGEST
    assert counts("candidates permuted") <= set(range(LEAST, LARGEST + 1))


def test_candidates_move_together():
    rows = {row for r in RECORDED for row in zip(r["clicks"][0], r["price"][0], strict=True)}
    for kind in ("candidates permuted", "one candidate", "two candidates", "many candidates"):
        for tensors in made(kind):
            assert set(zip(tensors["clicks"][0], tensors["price"][0], strict=True)) <= rows


def test_another_dimension_shrinks_alone():
    for tensors in made("another size"):
        assert tensors["event"].shape == tensors["dwell"].shape
        assert 1 <= tensors["event"].shape[1] < 7
        pairs = list(zip(tensors["event"][0], tensors["dwell"][0], strict=True))
        assert any(
            set(pairs) <= set(zip(r["event"][0], r["dwell"][0], strict=True)) for r in RECORDED
        )


def test_several_requests_of_equal_sizes_make_a_batch():
    found = made("several rows")
    assert {tensors["price"].shape[0] for tensors in found} <= set(range(2, MOST_ROWS + 1))
    for tensors in found:
        rows = tensors["price"].shape[0]
        assert {values.shape[0] for values in tensors.values()} == {rows}
        assert not np.array_equal(tensors["price"][0], tensors["price"][1])


def parsed(kind: str, mutator: Mutator = MUTATOR) -> list[service_pb2.ModelInferRequest]:
    found = messages(kind, mutator=mutator)
    return [service_pb2.ModelInferRequest.FromString(m) for m in found]


def test_some_outputs_are_asked_for_in_any_order():
    asked = {tuple(o.name for o in m.outputs) for m in parsed("outputs by name")}
    assert asked == {("score",), ("rank",), ("score", "rank"), ("rank", "score")}
    assert Mutator(REQUESTS).one(BY_NAME["outputs by name"], np.random.default_rng(1)) is None


def test_parameters_of_every_type_are_added():
    for message in parsed("unknown parameters"):
        kinds = {p.WhichOneof("parameter_choice") for p in message.parameters.values()}
        assert kinds == {"bool_param", "int64_param", "string_param"}
        assert not any(name.startswith("triton_") for name in message.parameters)
    for message in parsed("priority and time limit"):
        assert set(message.parameters) == {"priority", "timeout"}


def test_contents_are_sent_typed_and_mean_the_same():
    recorded = {decode(message)["price"].tobytes() for message in REQUESTS}
    for message in parsed("typed contents", TYPED):
        assert not message.raw_input_contents
        assert message.inputs[0].contents.fp32_contents
        assert decode(message.SerializeToString())["price"].tobytes() in recorded


def test_structure_is_never_changed():
    known = Known(another=lambda rng: {}, structural=frozenset({"clicks"}))
    assert "clicks" not in {
        name for k in KINDS for name in Draft(RECORDED[0], known).inputs(k.values)
    }
