"""How load tests are fooled, each trick played on real load by a real server.

A trick is one of a candidate (it refuses, shortens, repeats, remembers) or of a bad load test (it
waits for the server, drops what is late, compares unlike load). The generator is the real one.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import numpy as np
import psutil
import pytest

from layers.base import ChangeClass
from layers.errors import Inconclusive, ToolFailed
from layers.events import Silent
from layers.evidence import Block
from layers.gates.correctness import compare
from layers.manifest import Manifest
from layers.measure import launch as launches
from layers.measure.blocks import BlockContext, rate_block, work_block
from layers.measure.checks import ENVIRONMENT, Limits
from layers.measure.fresh import Fresh
from layers.measure.launch import Bench, DoesNotServe, Launch
from layers.measure.load import LoadGenerator, LoadResult
from layers.measure.records import UNANSWERED
from layers.traffic.envelope import content
from layers.traffic.salting import SALTS, Salter
from layers.trial.equivalence import Unsent, timed
from layers.trial.load_probe import MemoryProbe
from tests.grpc_peer import CPUS, ModelPeer, peer, record, response

pytestmark = pytest.mark.alone

# The machine of the tests is not quiet; what is under test here lies with the load.
LAX = Limits(neighbour_cores=1e3, generator_cores=1e3, lag_floor_ms=1e9)
CONTEXT = BlockContext(arm="candidate", launch=1, pair=1, position=1, limits=LAX)
KNOWN = 64
ORDER = np.arange(60, dtype=np.int64)
EVERY_10_MS = np.arange(1, 61) * 0.01
WARM = launches.WARM_REQUESTS  # of each arm, before its first block

MANIFEST = Manifest.model_validate(
    {
        "schema": "fvec.manifest/1",
        "stack": {"name": "peer", "models": "models", "entry": "m"},
        "traffic": {"requests": "requests.bin", "arrivals": "arrivals.csv", "in_flight": 4},
        "slo": {"p99_ms": 500.0},
    }
)


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    folder = tmp_path_factory.mktemp("integrity")
    with LoadGenerator(record(folder, KNOWN), cpus=CPUS, work_dir=folder / "work") as generator:
        yield generator


@dataclass(frozen=True)
class PeerBench(Bench):
    """A bench whose arms are peers: a view is the peer itself."""

    def deploy(self, view: ModelPeer, name: str, **_: object) -> ModelPeer:
        return view


@pytest.fixture
def bench(load, tmp_path, monkeypatch):
    monkeypatch.setattr(launches, "Limits", lambda: LAX)
    monkeypatch.setattr(launches, "RECORDED_LIMITS", replace(LAX, achieved_share=0.0))
    blocks: list[Block] = []
    made = PeerBench(
        env=None,
        sandbox=None,
        load=load,
        manifest=MANIFEST,
        log_dir=tmp_path,
        rng=np.random.default_rng(1),
        block_requests=60,
        events=Silent(),
        on_block=blocks.append,
    )
    return made, blocks


def launch(bench: Bench, candidate: ModelPeer, baseline: ModelPeer | None = None) -> Launch:
    return Launch(bench, 1, baseline or ModelPeer(), candidate, "test")


def after_warming(act: Callable[[int, grpc.ServicerContext], bytes | None]):
    """Return a behaviour that is honest until its arm is warm."""
    return lambda turn, context: act(turn - WARM, context) if turn >= WARM else None


# --- the clock of a load test -----------------------------------------------------------------


def stalls_one_second(turn: int, context: grpc.ServicerContext) -> None:
    if turn == 20:
        time.sleep(1.0)


def test_a_stall_counts_for_every_request_that_was_due_in_it(load):
    """Coordinated omission: 40 requests were due while the only thread stood still."""
    with peer(threads=1) as server:
        server.behaviour = stalls_one_second
        block, result = rate_block(server, load, ORDER, EVERY_10_MS, 500.0, CONTEXT)
    late = result.records["done_s"] - result.records["scheduled_s"] > 0.5
    assert late[20:].all()
    assert block.over_slo == np.count_nonzero(late)
    assert block.latency_ms["p50"] > 500


def test_a_closed_loop_would_hide_the_stall_so_it_offers_no_latency(load):
    with peer(threads=1) as server:
        server.behaviour = stalls_one_second
        block, result = work_block(server, load, ORDER, 1, CONTEXT)
    slow = result.records["done_s"] - result.records["sent_s"] >= 1.0
    assert np.flatnonzero(slow).tolist() == [20]  # what it hides: the others were sent afterwards
    assert (block.latency_ms, block.over_slo, block.offered) == ({}, None, None)
    with pytest.raises(ValueError, match="no latency"):
        result.latencies_ms()


def test_a_server_slower_than_its_load_throttles_a_closed_loop_alone(load):
    """A closed loop waits and finds nothing wrong; the open loop goes on sending, and is behind."""
    with peer(threads=1) as server:
        server.behaviour = lambda turn, context: time.sleep(0.02)
        closed, _ = work_block(server, load, ORDER, 1, CONTEXT)
        opened, result = rate_block(server, load, ORDER, EVERY_10_MS, 200.0, CONTEXT)
    assert (closed.void, closed.errors) == (None, 0)
    assert (opened.void, opened.errors) == ("behind_offered", 0)
    assert opened.rate < 0.99 * opened.offered
    done = np.sort(result.records["done_s"])
    waiting = np.searchsorted(result.records["sent_s"], done)[20:30]
    assert (waiting > np.arange(20, 30) + 1).all()  # more than one request was on its way


def test_bursts_are_offered_as_they_were_recorded(load):
    gaps_s = np.random.default_rng(3).gamma(0.1, 0.05, 120)
    arrivals_s = np.cumsum(gaps_s)
    order = np.resize(np.arange(KNOWN), 120)
    with peer() as server:
        result = load.open(server.address, order, arrivals_s)
    records = result.records
    assert records["scheduled_s"].tolist() == arrivals_s.tolist()
    assert (records["sent_s"] >= records["scheduled_s"]).all()
    variation = gaps_s.std() / gaps_s.mean()
    offered = np.diff(records["scheduled_s"], prepend=0.0)
    assert variation > 2
    assert offered.std() / offered.mean() == pytest.approx(variation)


def test_both_arms_get_the_recorded_gaps_segment_by_segment(bench):
    made, _ = bench
    arrivals_s = np.cumsum(np.random.default_rng(4).gamma(0.2, 0.02, 120))
    order = np.resize(np.arange(KNOWN), 120)
    with launch(made, ModelPeer()) as started:
        recorded = started.recorded(order, arrivals_s, 2)
    for arm in launches.ARMS:
        gaps = [np.diff(result.records["scheduled_s"]) for result in recorded.results[arm]]
        expected = [np.diff(part) for part in np.array_split(arrivals_s, 2)]
        assert np.concatenate(gaps) == pytest.approx(np.concatenate(expected))
        assert [r.records["index"].tolist() for r in recorded.results[arm]] == [
            part.tolist() for part in np.array_split(order, 2)
        ]


# --- the generator and the machine -------------------------------------------------------------


def own_generator() -> psutil.Process:
    return max(psutil.Process().children(), key=lambda child: child.create_time())


def test_a_generator_that_stood_still_voids_the_block(load):
    context = replace(CONTEXT, limits=replace(LAX, lag_floor_ms=2.5))
    generator = own_generator()
    with peer() as server:

        def stop(turn, _):
            if turn == 10:
                os.kill(generator.pid, signal.SIGSTOP)
                threading.Timer(0.4, os.kill, (generator.pid, signal.SIGCONT)).start()

        server.behaviour = stop
        block, _ = rate_block(server, load, ORDER, EVERY_10_MS, 500.0, context)
    assert block.lag_p99_ms > 100
    assert block.void == "late_sends"


def test_a_generator_at_its_limit_voids_the_block_and_blames_no_arm(load):
    context = replace(CONTEXT, limits=replace(LAX, generator_cores=1e-6))
    with peer() as server:
        block, _ = work_block(server, load, ORDER, 4, context)
    assert block.void == "generator_bound"
    assert block.generator_cpu > 1e-6
    assert "generator_bound" in ENVIRONMENT


def test_a_void_pair_is_measured_again_and_decides_nothing(bench, monkeypatch):
    made, blocks = bench
    limits = iter([replace(LAX, neighbour_cores=-1.0)])
    monkeypatch.setattr(launches, "Limits", lambda: next(limits, LAX))
    with launch(made, ModelPeer()) as started:
        measured = list(started.pairs(2))
    assert [block.void for block in blocks] == ["noisy_neighbour"] * 2 + [None] * 4
    assert [pair.pair.pair for pair in measured] == [2, 3]
    kept = [block for pair in measured for block in pair.blocks.values()]
    assert [block.void for block in kept] == [None] * 4


def test_a_machine_that_never_rests_ends_without_a_verdict_on_anyone(bench, monkeypatch):
    made, blocks = bench
    monkeypatch.setattr(launches, "MAX_VOID", 2)
    monkeypatch.setattr(launches, "Limits", lambda: replace(LAX, neighbour_cores=-1.0))
    with launch(made, ModelPeer()) as started, pytest.raises(Inconclusive, match="were void"):
        next(started.pairs(1))
    assert len(blocks) == 2 * 3


# --- what counts as an answer ------------------------------------------------------------------


def sheds(turn: int, context: grpc.ServicerContext) -> None:
    if turn % 6 == 5:
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "try again later")


def test_refused_requests_are_no_throughput_and_no_fast_samples(load):
    with peer() as server:
        server.behaviour = sheds
        closed, closed_result = work_block(server, load, ORDER, 4, CONTEXT)
        server.seen.clear()
        opened, opened_result = rate_block(server, load, ORDER, EVERY_10_MS, 1e6, CONTEXT)
    for block, result in ((closed, closed_result), (opened, opened_result)):
        assert (block.completed, block.errors, block.void) == (50, 10, "errors")
        assert block.rate == pytest.approx(50 / result.wall_s)
    assert len(opened_result.latencies_ms()) == 50
    assert opened.over_slo == 10  # a refusal is a miss, whatever the SLO


@pytest.mark.parametrize("arm", ["candidate", "baseline"])
@pytest.mark.parametrize("mode", ["work", "recorded"])
def test_shedding_load_to_be_fast_ends_the_trial(bench, arm, mode):
    made, _ = bench
    shedder = ModelPeer()
    shedder.behaviour = after_warming(sheds)
    arms = {"baseline": ModelPeer(), "candidate": ModelPeer()} | {arm: shedder}
    told = pytest.raises((DoesNotServe, ToolFailed), match="10 of 60 requests failed")
    with launch(made, arms["candidate"], arms["baseline"]) as started, told as caught:
        next(started.pairs(1)) if mode == "work" else started.recorded(ORDER, EVERY_10_MS, 1)
    expected = "errors_under_load" if arm == "candidate" else None
    assert getattr(caught.value, "reason", None) == expected


def answer(**changes: np.ndarray) -> bytes:
    """Return an answer to a request of two rows, or of what `changes` have."""
    outputs = {"y": np.zeros((1, 2), np.float32), "t": np.full((1, 2), b"0-0", dtype=object)}
    return response(outputs | changes)


BROKEN = {
    "no outputs": (response({}), "output_missing"),
    "one output of two": (response({"y": np.zeros((1, 2), np.float32)}), "output_missing"),
    "cut off in the middle": (answer()[:-3], "output_missing"),
    "an error message in an OK answer": (b"event: error", "output_missing"),
    "fewer rows": (answer(y=np.zeros((1, 1), np.float32)), "shape_differs"),
    "half precision": (answer(y=np.zeros((1, 2), np.float16)), "dtype_differs"),
    "the answer of another request": (answer(), "outputs_differ"),
    "not a number": (answer(y=np.full((1, 2), np.nan, np.float32)), "non_finite"),
    "empty strings": (answer(t=np.full((1, 2), b"", dtype=object)), "outputs_differ"),
}


@pytest.mark.parametrize("trick", BROKEN)
def test_one_bad_answer_among_the_timed_ones_is_found(bench, trick):
    """Only under load, only once in 60, and never when the parent asks by itself."""
    made, _ = bench
    bad, reason = BROKEN[trick]
    two_rows = {made.load.traffic.requests[i] for i in range(5, KNOWN, 5)}  # all but request 0
    candidate = ModelPeer()
    spoiled = []

    def spoil(turn, context):
        if not spoiled and turn >= 0 and candidate.seen[turn + WARM] in two_rows:
            spoiled.append(turn)
            candidate.compute(candidate.seen[turn + WARM])
            return bad
        return None

    candidate.behaviour = after_warming(spoil)
    with launch(made, candidate) as started:
        pair = next(started.pairs(1))
        results = pair.results
        gates = compare(timed(results["baseline"], results["candidate"]), ChangeClass.EXACT).gates
    assert len(spoiled) == 1
    assert [(gate.result.value, gate.reason) for gate in gates] == [("fail", reason)]


def test_honest_answers_under_load_are_identical(bench):
    made, _ = bench
    with launch(made, ModelPeer()) as started:
        results = next(started.pairs(1)).results
        gates = compare(timed(results["baseline"], results["candidate"]), ChangeClass.EXACT).gates
    assert [(gate.result.value, gate.reason) for gate in gates] == [("pass", "outputs_identical")]


def test_an_empty_answer_under_load_ends_the_trial(bench):
    made, _ = bench
    candidate = ModelPeer()
    candidate.behaviour = after_warming(lambda turn, context: b"" if turn == 7 else None)
    with launch(made, candidate) as started, pytest.raises(DoesNotServe) as caught:
        next(started.pairs(1))
    assert caught.value.reason == "short_outputs_under_load"


class DeadPeer(ModelPeer):
    def alive(self) -> None:
        raise ToolFailed("the model server has ended")

    def all_cpu_seconds(self) -> float:
        raise ToolFailed("the process is gone")


@pytest.mark.parametrize("seed", range(4))  # either arm is measured first
def test_a_candidate_that_died_is_to_blame_in_either_arms_block(bench, seed):
    made, _ = bench
    drawn = replace(made, rng=np.random.default_rng(seed))
    with launch(drawn, DeadPeer()) as started, pytest.raises(DoesNotServe) as caught:
        list(started.pairs(1))
    assert caught.value.reason == "died_under_load"
    assert caught.value.message == "the model server has ended"


# --- memory ------------------------------------------------------------------------------------


class CachingPeer(ModelPeer):
    """Answers a request that it has seen from a table of answers; a pause stands for the work."""

    def __init__(self, work_s: float = 0.0) -> None:
        self.answers: dict[bytes, bytes] = {}
        self.hits = 0
        self.work_s = work_s
        super().__init__()

    def compute(self, request: bytes) -> bytes:
        known = content(request)
        if known in self.answers and self.remembers():
            self.hits += 1
            return self.answers[known]
        time.sleep(self.work_s)
        self.answers[known] = super().compute(request)
        return self.answers[known]

    def remembers(self) -> bool:
        return True


class BusyCachingPeer(CachingPeer):
    """Answers from its table only while it is asked by several at a time, as it is when timed."""

    def __init__(self, work_s: float) -> None:
        self.flying = 0
        super().__init__(work_s)

    def _answer(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        with self._lock:
            self.flying += 1
        try:
            return super()._answer(request, context)
        finally:
            with self._lock:
                self.flying -= 1

    def remembers(self) -> bool:
        return self.flying > 1


class WorkingPeer(ModelPeer):
    def compute(self, request: bytes) -> bytes:
        time.sleep(0.02)
        return super().compute(request)


def test_a_response_cache_over_recorded_requests_is_seen_by_the_models_own_count(bench):
    made, _ = bench
    candidate = CachingPeer()
    with launch(made, candidate) as started, pytest.raises(DoesNotServe) as caught:
        list(started.pairs(2))
    assert caught.value.reason == "model_did_not_run"
    assert candidate.hits > 0


def test_a_response_cache_never_pays_where_every_timed_request_is_new(bench, tmp_path):
    made, _ = bench
    requests = made.load.traffic.requests
    fresh = Fresh(Salter(list(requests), [], SALTS[-1]), tmp_path / "sets")
    candidate = CachingPeer()
    with launch(replace(made, fresh=fresh), candidate) as started:
        measured = list(started.pairs(2))
        recorded = started.recorded(ORDER, EVERY_10_MS, 1)
    timed_requests = candidate.seen[WARM:]
    assert (len(timed_requests), len(set(timed_requests))) == (180, 180)
    assert (candidate.hits, fresh.repeated) == (0, 0)
    assert not set(timed_requests) & set(requests)
    assert [b.void for p in measured for b in p.blocks.values()] == [None] * 4
    assert recorded.blocks["candidate"][0].void is None


def asked_for_memory(bench: Bench, folder: Path, candidate: ModelPeer) -> tuple[str, set[str]]:
    """Return the reason of the memory gate, and what all its answers compare as."""
    traffic, rng = bench.load.traffic, np.random.default_rng(1)
    fresh = Fresh(Salter(list(traffic.requests), [], SALTS[-1]), folder / "sets")
    compared = set()

    def verify(old: LoadResult, new: LoadResult) -> None:
        compared.add(compare(timed(old, new), ChangeClass.EXACT).gates[0].reason)

    renewing = replace(bench, fresh=fresh)
    with launch(renewing, candidate, WorkingPeer()) as started:
        probe = MemoryProbe(renewing, started, rng)
        found = probe.gate(Unsent(traffic, fresh, rng), 24, verify)
    return found.reason, compared


@pytest.mark.parametrize("kind", [CachingPeer, BusyCachingPeer])
def test_a_server_that_is_fast_on_what_it_has_seen_alone_is_found_out(bench, tmp_path, kind):
    """Warm-only runs: everything after the first round would measure the cache."""
    reason, compared = asked_for_memory(bench[0], tmp_path, kind(0.02))
    assert (reason, compared) == ("answers_from_memory", {"outputs_identical"})


def test_a_server_that_remembers_nothing_passes(bench, tmp_path):
    reason, compared = asked_for_memory(bench[0], tmp_path, WorkingPeer())
    assert (reason, compared) == ("no_memory_seen", {"outputs_identical"})


def test_one_that_fails_a_repeat_is_rejected_for_that(bench, tmp_path):
    class Failing(WorkingPeer):
        def compute(self, request: bytes) -> bytes:
            if self.ran > WARM + 30:
                raise RuntimeError("no")
            return super().compute(request)

    with pytest.raises(DoesNotServe) as caught:
        asked_for_memory(bench[0], tmp_path, Failing())
    assert caught.value.reason == "errors_under_load"


def test_both_arms_are_warmed_by_as_many_requests(bench):
    made, _ = bench
    with launch(made, ModelPeer()) as started:
        assert [started.arm(arm).ran for arm in launches.ARMS] == [WARM, WARM]


# --- like with like ----------------------------------------------------------------------------


def test_answers_to_different_request_sets_are_not_compared(load, tmp_path):
    requests = load.traffic.requests
    fresh = Fresh(Salter(list(requests), [], SALTS[-1]), tmp_path / "sets")
    with ModelPeer() as server, fresh.draw(ORDER) as first, fresh.draw(ORDER) as second:
        results = [load.closed(server.grpc, ORDER, 4, requests=used) for used in (first, second)]
        with pytest.raises(ToolFailed, match="sent different requests"):
            list(timed(*results))


def test_answers_to_other_requests_of_the_set_are_not_compared(load):
    with ModelPeer() as server:
        first = load.closed(server.grpc, ORDER, 4)
        other = load.closed(server.grpc, ORDER[:-1], 4)
    with pytest.raises(ToolFailed, match="were sent different requests"):
        list(timed(first, other))


def test_both_arms_of_a_pair_answer_the_same_requests(bench, tmp_path):
    made, _ = bench
    requests = made.load.traffic.requests
    fresh = Fresh(Salter(list(requests), [], SALTS[-1]), tmp_path / "sets")
    with launch(replace(made, fresh=fresh), ModelPeer()) as started:
        pairs = list(started.pairs(2))
        arms = [started.arm(arm).seen[WARM:] for arm in launches.ARMS]
    assert sorted(arms[0]) == sorted(arms[1])
    sets = [[result.request_set for result in pair.results.values()] for pair in pairs]
    assert all(old == new for old, new in sets)
    assert sets[0] != sets[1]


# --- the end of a block ------------------------------------------------------------------------


def test_a_block_ends_when_every_request_is_answered_not_when_the_last_is_sent(load):
    flying, lock = [0], threading.Lock()

    def work(turn, context):
        with lock:
            flying[0] += 1
        time.sleep(0.03)
        with lock:
            flying[0] -= 1

    with peer(threads=2) as server:
        server.behaviour = work
        result = load.open(server.address, ORDER, EVERY_10_MS)
        left = flying[0]
        server.behaviour = lambda turn, context: None
        again = load.closed(server.address, ORDER, 1)
    assert (left, result.errors, result.completed) == (0, 0, 60)
    assert result.wall_s >= result.records["done_s"].max() - EVERY_10_MS[0]
    assert again.errors == 0


def test_requests_that_are_never_answered_are_misses_and_are_called_off(load):
    contexts = []
    with peer() as server:

        def hang(turn, context):
            if turn >= 57:
                contexts.append(context)
                server.release.wait(60)

        server.behaviour = hang
        result = load.open(server.address, ORDER, EVERY_10_MS, drain_s=3.0)
        deadline_s = time.monotonic() + 30
        while any(context.is_active() for context in contexts) and time.monotonic() < deadline_s:
            time.sleep(0.01)
        cancelled = [not context.is_active() for context in contexts]
    assert result.records["code"].tolist()[57:] == [UNANSWERED] * 3
    assert (result.completed, result.errors, len(result.latencies_ms())) == (57, 3, 57)
    assert cancelled == [True] * 3
