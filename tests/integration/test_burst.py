"""A burst on real load: what is compared, what is counted, and what a baseline does not repeat."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import numpy as np
import pytest

from layers.base import Candidate, ChangeClass, Edit, Hypothesis, LayerName
from layers.events import Silent
from layers.gates.correctness import Comparison, compare
from layers.manifest import Manifest
from layers.measure.launch import Bench, Launch
from layers.measure.load import LoadGenerator
from layers.traffic.recorded import decode
from layers.trial import burst
from layers.trial.equivalence import Compared
from layers.trial.trial import Trial, TrialEnded
from tests.grpc_peer import CPUS, ModelPeer, record, response

pytestmark = pytest.mark.alone

MANIFEST = Manifest.model_validate(
    {
        "schema": "fvec.manifest/1",
        "stack": {"name": "peer", "models": "models", "entry": "m"},
        "traffic": {"requests": "requests.bin", "arrivals": "arrivals.csv", "in_flight": 4},
        "slo": {"p99_ms": 500.0},
    }
)
KNOWN = 40


@dataclass(frozen=True)
class PeerBench(Bench):
    """A bench whose arms are peers: a view is the peer itself."""

    def deploy(self, view: ModelPeer, name: str, **_: object) -> ModelPeer:
        return view


@pytest.fixture(scope="module")
def load(tmp_path_factory) -> Iterator[LoadGenerator]:
    folder = tmp_path_factory.mktemp("burst")
    with LoadGenerator(record(folder, KNOWN), cpus=CPUS, work_dir=folder / "work") as generator:
        yield generator


@pytest.fixture
def bench(load, tmp_path) -> PeerBench:
    return PeerBench(
        env=None,
        sandbox=None,
        load=load,
        manifest=MANIFEST,
        log_dir=tmp_path,
        rng=np.random.default_rng(1),
        block_requests=KNOWN,
        events=Silent(),
        on_block=lambda block: None,
    )


class CrowdedPeer(ModelPeer):
    """Does something else with a request while more than four are there at the same time."""

    def __init__(self) -> None:
        super().__init__(threads=64)
        self._there, self._count = 0, threading.Lock()
        self._full = threading.Event()

    def _answer(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        with self._count:
            self._there += 1
            if self._there > 4:
                self._full.set()
        try:
            self._full.wait(0.01)
            return self.crowded(request, context) if self._full.is_set() else self.compute(request)
        finally:
            with self._count:
                self._there -= 1

    def crowded(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """Return the answer of a peer that was ever asked too much."""
        raise NotImplementedError


class ZeroPeer(CrowdedPeer):
    def crowded(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        inputs = decode(request)
        self.compute(request)
        return response({"y": inputs["x"] * 0, "t": inputs["s"]})


class RefusingPeer(CrowdedPeer):
    def crowded(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.UNAVAILABLE, "exceeds maximum queue size")
        raise AssertionError


class DriftingPeer(CrowdedPeer):
    """Its floats depend on what else is there: a little, and never twice the same."""

    def __init__(self) -> None:
        super().__init__()
        self._rng = np.random.default_rng(2)

    def crowded(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        inputs = decode(request)
        with self._count:
            moved = np.float32(self._rng.uniform(1e-7, 1e-6))
        return response({"y": inputs["x"] * 2 + moved, "t": inputs["s"]})


def trial(change_class: ChangeClass) -> Trial:
    hypothesis = Hypothesis(
        layer=LayerName.FEATURES,
        card="card",
        transform="card",
        model="m",
        title="Title",
        why="because",
        share=0.5,
        expected_gain=0.5,
        best_gain=0.8,
        change_class=change_class,
    )
    edit = Edit({"models/m/1/model.py": b""}, "Do it", "It is right.")
    return Trial(1, Candidate(hypothesis, edit, "fvec/b", "base", "head", Path("/w"), "diff"))


def judged(
    bench: Bench,
    baseline: ModelPeer,
    candidate: ModelPeer,
    change_class: ChangeClass = ChangeClass.EXACT,
) -> tuple[Trial, str | None]:
    """Return the trial after the burst, and the reason that ended it, if one did."""
    found = trial(change_class)

    def hold(answers: Iterable[Compared], same: frozenset[str] | None) -> Comparison:
        if same is None:
            return compare(
                answers, change_class, None, frozenset({"y", "t"}), referee_required=False
            )
        return compare(answers, ChangeClass.CONFIG, None, same, referee_required=False)

    with Launch(bench, 1, baseline, candidate, "test") as started:
        try:
            burst.station(found, started, bench, hold)
        except TrialEnded as ended:
            return found, ended.reason
    return found, None


def test_equal_answers_to_a_burst_pass_and_each_is_compared(bench):
    found, reason = judged(bench, ModelPeer(64), ModelPeer(64))
    assert reason is None
    assert [(g.name, g.result.value, g.reason) for g in found.gates] == [
        ("burst", "pass", "burst_answered")
    ]
    assert found.gates[0].detail == "64 requests at once: 0 failed, 0 of the baseline's"
    assert found.outputs_compared == 64


def test_answers_that_are_wrong_in_a_crowd_end_the_trial(bench):
    found, reason = judged(bench, ModelPeer(64), ZeroPeer())
    assert reason == "outputs_differ"
    assert found.gates[-1].name == "burst correctness"


def test_requests_that_fail_in_a_crowd_end_the_trial(bench):
    found, reason = judged(bench, ModelPeer(64), RefusingPeer())
    assert reason == "more_errors"
    assert "exceeds maximum queue size" in found.gates[-1].detail


def test_a_queue_that_the_baseline_has_too_is_nobodys_fault(bench):
    found, reason = judged(bench, RefusingPeer(), ModelPeer(64))
    assert reason is None
    assert found.outputs_compared < 64


@pytest.mark.parametrize("change_class", [ChangeClass.EXACT, ChangeClass.CONFIG])
def test_floats_that_the_baseline_does_not_repeat_in_a_crowd_are_held_to_the_limits(
    bench, change_class
):
    found, reason = judged(bench, DriftingPeer(), DriftingPeer(), change_class)
    assert reason is None
    assert [g.reason for g in found.gates] == ["burst_answered"]


def test_a_baseline_that_drifts_is_no_cover_for_wrong_answers(bench):
    _, reason = judged(bench, DriftingPeer(), ZeroPeer())
    assert reason == "beyond_ten_times"
