"""Probes on the wire, and how a stack is asked for what it takes: real clients, peers as servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from layers.base import ChangeClass
from layers.errors import ToolFailed
from layers.evidence import Gate, GateResult, KindCount
from layers.gates.correctness import compare
from layers.measure.launch import ARMS
from layers.traffic.envelope import ID_LENGTH, content
from layers.traffic.kinds import KINDS
from layers.traffic.mutations import Taken
from layers.traffic.tensors import decode, encode
from layers.trial import kind_probe
from layers.trial.equivalence import Probe, Sequential
from tests.grpc_peer import ModelPeer, record, request, response


class Arms:
    """A launch as far as requests that are sent one at a time need one."""

    def __init__(self, baseline: ModelPeer, candidate: ModelPeer) -> None:
        self._peers = {"baseline": baseline, "candidate": candidate}

    def arm(self, arm: str) -> ModelPeer:
        return self._peers[arm]

    @contextmanager
    def blaming(self, arm: str) -> Iterator[None]:
        yield


@pytest.fixture
def arms():
    with ModelPeer() as baseline, ModelPeer() as candidate:
        yield Arms(baseline, candidate)


def id_of(message: bytes) -> str:
    name: str = service_pb2.ModelInferRequest.FromString(message).id
    return name


def test_every_request_is_sent_under_an_id_of_its_own_and_the_same_to_both_arms(arms):
    sequential = Sequential(arms, None, None)
    list(sequential.answers([request(i) for i in range(20)] * 2))
    seen = [arms.arm(arm).seen for arm in ARMS]
    assert seen[0] == seen[1]
    assert [content(message) for message in seen[0]] == [content(request(i)) for i in range(20)] * 2
    ids = [id_of(message) for message in seen[0]]
    assert len(set(ids)) == 40
    assert {len(one) for one in ids} == {ID_LENGTH}


class WrongOnMarkedRequests(ModelPeer):
    """Right for whatever has an id as clients of the recording write them, and only for that."""

    def compute(self, request: bytes) -> bytes:
        inputs = decode(request)
        factor = 2 if id_of(request).isdecimal() else 3
        return response({"y": inputs["x"] * factor, "t": inputs["s"]})


def test_a_candidate_that_goes_by_ids_is_seen_on_the_recording_itself():
    with ModelPeer() as baseline, WrongOnMarkedRequests() as candidate:
        sequential = Sequential(Arms(baseline, candidate), None, None)
        found = compare(sequential.answers([request(1), request(2)]), ChangeClass.EXACT)
    assert [gate.reason for gate in found.gates] == ["outputs_differ"]


def test_probes_are_counted_by_kind_and_kept_where_both_arms_answer(arms):
    class Refusing(ModelPeer):
        def compute(self, request: bytes) -> bytes:
            if b"odd" in decode(request)["s"].flat:
                raise RuntimeError("no")
            return super().compute(request)

    odd = encode(request(5, rows=1), {"x": np.ones((1, 1), np.float32), "s": _names("odd")}, "")
    observed: list[bytes] = []
    probes = [
        Probe(request(0), observed=True),
        Probe(request(1), "floats moved", odd=True),
        Probe(odd, "strings unknown", odd=True),
        Probe(request(2), "renewed", observed=True),
        Probe(request(3), "many candidates"),
    ]
    with Refusing() as baseline, Refusing() as candidate:
        both = Arms(baseline, candidate)
        sequential = Sequential(both, None, lambda message, *_: observed.append(message))
        answers = list(sequential.probed(probes))
    assert len(answers) == sequential.answered == 4
    assert sequential.counts == {
        "recorded": KindCount(answered=1, refused=0),
        "floats moved": KindCount(answered=1, refused=0),
        "strings unknown": KindCount(answered=0, refused=1),
        "renewed": KindCount(answered=1, refused=0),
        "many candidates": KindCount(answered=1, refused=0),
    }
    assert observed == [request(0), request(2)]
    assert sequential.odd == [request(1)]
    assert sequential.gate().result is GateResult.PASS
    told = sequential.named(_gate("output 'y' of request 3: 1 of 4 elements differ"))
    assert told.detail.endswith("elements differ (a request of kind: many candidates)")
    for detail in ("output 'y' of request 4: x", "3 outputs of 4 requests", ""):
        assert sequential.named(_gate(detail)).detail == detail


def _gate(detail: str) -> Gate:
    return Gate(name="correctness", result=GateResult.FAIL, reason="outputs_differ", detail=detail)


def _names(*names: str) -> np.ndarray:
    return np.array([[name.encode() for name in names]], dtype=np.object_)


def test_what_is_not_finite_is_compared_only_where_bits_decide(arms):
    missing = encode(
        request(5, rows=1), {"x": np.full((1, 1), np.nan, np.float32), "s": _names("a")}, ""
    )
    sequential = Sequential(arms, None, None)
    probes = [
        Probe(missing, "floats missing", odd=True, far=False),
        Probe(request(1), far=False),
        Probe(missing, "floats missing", odd=True),
    ]
    answers = list(sequential.probed(probes))
    assert [bool(np.isfinite(old["y"]).all()) for old, _, _ in answers] == [True, False]
    assert sequential.answered == 2
    assert sequential.odd == [missing]


# --- what a stack takes ------------------------------------------------------------------------


class Picky(ModelPeer):
    """Refuses NaN, never says the same of infinities, dies of long strings, answers the rest."""

    def __init__(self) -> None:
        self.dead = False
        super().__init__()

    def compute(self, request: bytes) -> bytes:
        inputs = decode(request)
        x, s = inputs["x"], inputs["s"]
        self.dead |= any(len(one) > 1000 for one in s.flat)
        if self.dead or np.isnan(x).any():
            raise RuntimeError("no")
        with np.errstate(over="ignore"):
            y = x * 2
        if np.isinf(x).any():
            y = np.random.default_rng().random(y.shape, np.float32)
        return response({"y": y, "t": s})

    def alive(self) -> None:
        if self.dead:
            raise ToolFailed("a model's process has ended")


def test_a_stack_is_asked_once_for_what_it_takes_and_started_again_where_it_dies(tmp_path):
    traffic = record(tmp_path)
    started: list[str] = []

    def deploy(_view: object, name: str) -> Picky:
        started.append(name)
        return Picky()

    bench = SimpleNamespace(deploy=deploy)
    session = SimpleNamespace(traffic=traffic, bench=bench, view=None)
    with Picky() as first:
        mutator = kind_probe.asked(session, first)
        assert first.dead
    assert mutator is not None
    assert mutator.outputs == ("t", "y")
    taken = {one.kind: one for one in mutator.taken}
    assert set(taken) == {kind.name for kind in KINDS}
    assert started == ["kinds-1"]
    assert taken["strings long"] == Taken("strings long", "fatal")
    assert taken["floats missing"] == Taken("floats missing", "refused")
    assert taken["floats infinite"].answer == "unstable"
    assert taken["floats at their ends"].answer == "answered"
    absent = {one.kind for one in mutator.taken if one.answer == "absent"}
    assert absent == {
        "flags turned",
        "integers of others",
        "integers between",
        "integers beyond",
        "integers at ends",
        "another size",
        "optional inputs left out",
    }
    answered = {one.kind for one in mutator.taken if one.answer == "answered"}
    assert answered >= {"floats moved", "strings foreign", "many candidates", "outputs by name"}


def test_inputs_whose_change_is_refused_are_found_one_by_one(tmp_path):
    class Strict(ModelPeer):
        def compute(self, request: bytes) -> bytes:
            inputs = decode(request)
            if np.isnan(inputs["a"]).any():
                raise RuntimeError("no")
            return response({"y": inputs["a"], "z": inputs["b"]})

    messages = [_two_floats(i) for i in range(10)]
    session = SimpleNamespace(
        traffic=SimpleNamespace(requests=messages, optional=frozenset()), bench=None, view=None
    )
    with Strict() as server:
        mutator = kind_probe.asked(session, server)
    assert mutator is not None
    missing = [one for one in mutator.taken if one.kind == "floats missing"]
    assert missing == [
        Taken("floats missing", "refused", ("a",)),
        Taken("floats missing", "answered", ("b",), finite=False),
    ]


def _two_floats(index: int) -> bytes:
    rows = 2 + index % 4
    tensors = {name: np.arange(rows, dtype=np.float32)[None] + 0.5 for name in ("a", "b")}
    message = service_pb2.ModelInferRequest(model_name="m")
    for name, values in tensors.items():
        message.inputs.add(name=name, datatype="FP32", shape=values.shape)
    data: bytes = encode(message.SerializeToString(), tensors, "")
    return data
