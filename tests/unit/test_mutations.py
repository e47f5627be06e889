"""Mutated requests: what changes, what stays, what is sent of it, and that seeds replay."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from layers.traffic.envelope import ID_LENGTH
from layers.traffic.kinds import BY_NAME, KINDS
from layers.traffic.mutations import EXACT_ONLY, WHY, Mutator, Taken
from layers.traffic.tensors import decode, encode
from tests.grpc_peer import record

USUAL = [kind for kind in KINDS if kind.usual]
DATATYPES = {
    "price": "FP32",
    "item": "INT64",
    "name": "BYTES",
    "seen": "INT64",
    "seen_lengths": "INT32",
    "user": "FP64",
}


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
    message = service_pb2.ModelInferRequest(model_name="m", id=str(index))
    for name, values in tensors.items():
        message.inputs.add(name=name, datatype=DATATYPES[name], shape=values.shape)
    data: bytes = encode(message.SerializeToString(), tensors, str(index))
    return data


REQUESTS = [ragged(i) for i in range(40)]


@pytest.fixture(scope="module")
def made():
    return [decode(message) for message in Mutator(REQUESTS).requests(7, 6 * len(USUAL))]


def of(mutator: Mutator, kind: str, count: int = 20, seed: int = 1) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    messages = [mutator.one(BY_NAME[kind], rng) for _ in range(count)]
    return [decode(message) for message in messages if message is not None]


def test_the_candidate_dimension_is_found():
    assert Mutator(REQUESTS).candidate_axes == [("item", 1), ("name", 1), ("price", 1)]


def test_traffic_without_a_varying_size_has_no_candidate_dimension():
    mutator = Mutator([ragged(1)] * 3)
    assert mutator.candidate_axes == []
    assert len(mutator.requests(1, 8)) == 8
    assert of(mutator, "candidates permuted") == of(mutator, "many candidates") == []


def test_what_is_known_of_a_recording():
    known = Mutator(REQUESTS, outputs=["score"]).known
    assert known.largest == 9
    assert known.structural == {"seen_lengths"}
    assert known.whole["item"] == (100, 108)
    assert set(known.whole) == {"item", "seen"}
    assert known.other_axes == []  # the history's size is counted by `seen_lengths`
    assert known.outputs == ["score"]
    assert known.one_row
    assert known.typed


def test_every_usual_request_has_consistent_shapes(made):
    for tensors in made:
        candidates = tensors["price"].shape[1]
        assert tensors["item"].shape == tensors["name"].shape == (1, candidates)
        assert tensors["price"].shape == (1, candidates, 1)
        assert tensors["seen_lengths"].sum() == tensors["seen"].shape[1]
        assert {name: values.dtype for name, values in tensors.items()} == {
            name: values.dtype for name, values in decode(REQUESTS[0]).items()
        }


def test_usual_numbers_stay_finite_and_integers_within_what_was_seen(made):
    for tensors in made:
        assert np.isfinite(tensors["price"]).all()
        assert set(tensors["item"].flat) <= set(range(100, 110))


def test_the_seed_decides_all_but_nothing_else_does():
    mutator = Mutator(REQUESTS)
    assert mutator.requests(3, 30) == mutator.requests(3, 30)
    assert not set(mutator.requests(3, 30)) & set(mutator.requests(4, 30))
    assert mutator.requests(3, 8) == Mutator(REQUESTS).requests(3, 8)


def test_no_id_says_what_a_request_is(made):
    ids = [
        service_pb2.ModelInferRequest.FromString(m).id for m in Mutator(REQUESTS).requests(7, 60)
    ]
    assert {len(one) for one in ids} == {ID_LENGTH}
    assert len(set(ids)) == 60


def test_traffic_offers_mutated_requests(tmp_path):
    made = record(tmp_path).mutated(1, 4)
    assert [sorted(decode(message)) for message in made] == [["s", "x"]] * 4


# --- what is sent of it ------------------------------------------------------------------------


def kinds_of(mutator: Mutator, count: int, *, far: bool, seed: int = 1) -> Counter[str]:
    drawn = mutator.draw(np.random.default_rng(seed), count, far=far)
    return Counter(one.kind.name for one in drawn)


def test_where_nobody_has_asked_the_usual_kinds_alone_are_sent():
    found = kinds_of(Mutator(REQUESTS), 60, far=True)
    assert found.total() == 60
    assert set(found) <= {kind.name for kind in USUAL}
    said = Mutator(REQUESTS).not_tried(found, far=True)
    assert f"floats missing: {WHY['untried']}" in said
    assert f"integers at ends: {WHY['untried']}" in said
    assert all("strings" not in line for line in said)


TAKEN = [
    Taken("floats moved", "answered"),
    Taken("floats missing", "answered", ("price",), finite=False),
    Taken("floats missing", "refused", ("user",)),
    Taken("integers at ends", "fatal", ("item",)),
    Taken("integers beyond", "refused", ("item",)),
    Taken("strings long", "unstable"),
    Taken("one candidate", "answered", finite=False),
    Taken("flags turned", "absent"),
]


def test_what_the_stack_answers_is_sent_most_and_what_it_refuses_a_little():
    found = kinds_of(Mutator(REQUESTS, taken=TAKEN), 60, far=True)
    assert set(found) == {"floats moved", "floats missing", "integers beyond", "one candidate"}
    assert found["integers beyond"] == 1
    assert found["floats missing"] >= 19
    assert found.total() == 60


def test_every_kind_that_is_taken_is_drawn_however_few_are_asked_for():
    there = [kind for kind in USUAL if kind.name != "flags turned"]  # the recording has none
    taken = [Taken(kind.name, "answered") for kind in there]
    taken += [Taken("integers beyond", "refused"), Taken("floats missing", "refused", ("user",))]
    mutator = Mutator(REQUESTS, ["price"], taken=taken)
    for seed in range(20):
        found = kinds_of(mutator, 5, far=True, seed=seed)
        assert found == {one.kind: 1 for one in taken}
        assert mutator.not_tried(found, far=True) == []


def test_the_inputs_whose_change_is_refused_change_in_a_request_of_their_own():
    mutator = Mutator(REQUESTS, taken=TAKEN[1:3])
    drawn = [decode(m.message) for m in mutator.draw(np.random.default_rng(1), 20, far=True)]
    missing = [(np.isnan(t["price"]).any(), np.isnan(t["user"]).any()) for t in drawn]
    assert Counter(missing) == {(True, False): 19, (False, True): 1}


def test_only_an_exact_change_is_held_to_values_like_none_that_was_recorded():
    mutator = Mutator(REQUESTS, taken=TAKEN)
    found = kinds_of(mutator, 30, far=False)
    assert set(found) == {"floats moved", "integers beyond"}
    said = mutator.not_tried(found, far=False)
    assert said == [
        f"floats missing of price: {EXACT_ONLY}",
        f"floats missing of user: {EXACT_ONLY}",
        f"integers at ends of item: {WHY['fatal']}",
        f"strings long: {WHY['unstable']}",
        f"one candidate: {EXACT_ONLY}",
        f"flags turned: {WHY['absent']}",
    ]


def test_a_kind_of_which_none_was_drawn_is_not_tried():
    said = Mutator(REQUESTS, taken=TAKEN[:1]).not_tried({}, far=True)
    assert said == ["floats moved: none was drawn"]


def test_a_kind_that_this_version_does_not_know_is_left_out():
    mutator = Mutator(REQUESTS, taken=[Taken("dreams", "answered"), TAKEN[0]])
    assert set(kinds_of(mutator, 3, far=True)) == {"floats moved"}


def test_nothing_is_drawn_where_nothing_is_taken():
    assert Mutator(REQUESTS, taken=[]).draw(np.random.default_rng(1), 5, far=True) == []
    absent = Mutator([ragged(1)] * 3, taken=[Taken("candidates permuted", "answered")])
    assert absent.draw(np.random.default_rng(1), 5, far=True) == []


def test_the_order_of_a_draw_is_random():
    mutator = Mutator(REQUESTS, taken=[Taken(kind.name, "answered") for kind in USUAL])
    orders = {
        tuple(m.kind.name for m in mutator.draw(np.random.default_rng(seed), 12, far=True))
        for seed in range(5)
    }
    assert len(orders) == 5


# --- optional inputs ---------------------------------------------------------------------------


def test_optional_inputs_are_left_out():
    found = of(Mutator(REQUESTS, ["price", "not-there"]), "optional inputs left out")
    assert len(found) == 20
    assert all(set(tensors) == set(DATATYPES) - {"price"} for tensors in found)
    assert of(Mutator(REQUESTS), "optional inputs left out") == []


def test_what_a_recorded_request_lacks_is_optional():
    whole = decode(REQUESTS[0])
    without = {name: values for name, values in whole.items() if name != "price"}
    shorter = encode(REQUESTS[0], without, "shorter")
    assert set(decode(shorter)) == set(without)
    found = of(Mutator([*REQUESTS[:3], shorter]), "optional inputs left out")
    assert any("price" not in tensors for tensors in found)


def test_never_are_all_inputs_left_out():
    found = of(Mutator(REQUESTS, list(DATATYPES)), "optional inputs left out", 50)
    assert all(tensors for tensors in found)
    assert len({len(tensors) for tensors in found}) > 1
