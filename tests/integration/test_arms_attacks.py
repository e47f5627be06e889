"""Patches that gain by what their arm does beside its answers, on real servers of the tiny stack.

What lies within an arm's reach is its own account: its log's relay, its memory, its socket, the time
in which the other arm is measured, more requests at once than blocks have in flight.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from layers.base import Candidate, ChangeClass, Edit, Hypothesis, LayerName, StackView
from layers.events import Silent
from layers.gates.correctness import Comparison, compare
from layers.measure import launch as launches
from layers.measure.checks import Limits
from layers.measure.launch import Bench, DoesNotServe, Launch
from layers.measure.ledger import Ledger
from layers.measure.load import LoadGenerator
from layers.sandbox.base import MIB
from layers.sandbox.box import Sandbox
from layers.traffic.recorded import Traffic
from layers.trial import burst
from layers.trial.equivalence import Compared, timed
from layers.trial.trial import Trial, TrialEnded
from layers.triton.client import Client
from layers.triton.environment import ServerEnvironment
from layers.triton.server import Deployment

pytestmark = [pytest.mark.triton, pytest.mark.alone]

FEATURES = "models/tiny_features/1/model.py"
CONFIG = "models/tiny_features/config.pbtxt"
CPUS = sorted(os.sched_getaffinity(0))
# The machine of the tests is not quiet; what is under test lies with the candidate.
LAX = Limits(neighbour_cores=1e3, generator_cores=1e3, lag_floor_ms=1e9)
BURNS = """
import threading
def burn():
    while True:
        sum(range(1000))
threading.Thread(target=burn, daemon=True).start()
"""
# A little at a time, so that the limit of a log is far: what it costs is the relay's work.
PRINTS = """
import os, threading, time
def flood():
    while True:
        os.write(2, b"x" * 4096)
        time.sleep(0.01)
threading.Thread(target=flood, daemon=True).start()
"""
FLOODS = """
import os, threading, time
def flood():
    time.sleep(5)
    while True:
        os.write(2, b"x" * (1 << 16))
threading.Thread(target=flood, daemon=True).start()
"""
TAKES_THE_PLACE = """
import os, socket, threading, time
def replace():
    while not os.path.exists("/tmp/8001"):
        time.sleep(0.01)
    time.sleep(5)
    os.rename("/tmp/8001", "/tmp/server")
    own = socket.socket(socket.AF_UNIX)
    own.bind("/tmp/8001")
    own.listen()
    time.sleep(600)
threading.Thread(target=replace, daemon=True).start()
"""
HOARDS = f"hoard = bytearray(b'x' * {300 * MIB})\n"

Patched = Callable[..., StackView]


@pytest.fixture
def bench(
    tiny_view: StackView,
    server_env: ServerEnvironment,
    sandbox: Sandbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Bench]:
    monkeypatch.setattr(launches, "Limits", lambda: LAX)
    traffic = Traffic.load(tiny_view.root, tiny_view.manifest.traffic)
    with LoadGenerator(traffic, cpus=CPUS[-1:], work_dir=tmp_path / "load") as load:
        yield Bench(
            env=server_env,
            sandbox=sandbox,
            load=load,
            manifest=tiny_view.manifest,
            log_dir=tmp_path / "logs",
            rng=np.random.default_rng(1),
            block_requests=200,
            events=Silent(),
            on_block=lambda block: None,
        )


@pytest.fixture
def patched(tiny_view: StackView, tmp_path: Path) -> Patched:
    """Return the tiny stack with code before a model's own, and other edits of that model."""

    def make(code: str = "", *edits: tuple[str, str], config: str = "") -> StackView:
        root = tmp_path / "patched"
        shutil.copytree(tiny_view.root, root)
        text = (root / FEATURES).read_text()
        for old, new in edits:
            assert text.count(old) == 1
            text = text.replace(old, new)
        (root / FEATURES).write_text(f"{code}\n{text}")
        with (root / CONFIG).open("a") as file:
            file.write(config)
        return replace(tiny_view, root=root)

    return make


@pytest.fixture
def deploy(
    server_env: ServerEnvironment, sandbox: Sandbox, tiny_request: bytes, tmp_path: Path
) -> Callable[[StackView], Deployment]:
    def make(view: StackView) -> Deployment:
        logs = tmp_path / "log"
        return Deployment(
            view, server_env, sandbox=sandbox, cpus=None, log_dir=logs, probe=tiny_request
        )

    return make


def launch(bench: Bench, baseline: StackView, candidate: StackView, ledger: Ledger) -> Launch:
    return Launch(bench, 1, baseline, candidate, "test", ledger=ledger)


# --- held still --------------------------------------------------------------------------------


def test_an_arm_that_is_held_still_does_nothing_and_serves_afterwards(
    deploy: Callable[[StackView], Deployment], patched: Patched, tiny_request: bytes
) -> None:
    with deploy(patched(BURNS)) as deployment:
        busy = deployment.all_cpu_seconds()
        time.sleep(0.5)
        assert deployment.all_cpu_seconds() > busy
        for _ in range(20):
            with deployment.held_still() as held:
                assert held
                used = deployment.all_cpu_seconds()
                time.sleep(0.05)
                assert deployment.all_cpu_seconds() == used
                deployment.alive()  # it is, though it does nothing
            assert deployment.client.infer(tiny_request)
            with Client(deployment.grpc) as client:
                assert client.infer(tiny_request)
        deployment.alive()


def test_a_long_rest_breaks_nothing_of_a_server(
    deploy: Callable[[StackView], Deployment], tiny_view: StackView, tiny_request: bytes
) -> None:
    """Longer than the second in which a backend's process must show that it is healthy."""
    with deploy(tiny_view) as deployment:
        with deployment.held_still():
            time.sleep(5)
        assert deployment.client.infer(tiny_request)
        deployment.alive()


def test_what_a_server_prints_is_copied_at_its_own_cost_and_not_while_it_is_held(
    bench: Bench, tiny_view: StackView, patched: Patched
) -> None:
    with launch(bench, tiny_view, patched(PRINTS), Ledger()) as started:
        log = started.arm("candidate").log
        with started.alone("baseline") as held:
            assert held
            before = log.stat().st_size
            time.sleep(0.5)
            assert log.stat().st_size == before
        guard, group = started.arm("candidate")._guard.pid, started.arm("candidate")._group
        writers = {pid for pid in psutil.pids() if _standard_error(pid) == str(log)}
        assert guard in writers - set(group.pids())
        (relay,) = writers - {guard}
        assert relay in group.pids()
        blocks = [b for pair in started.pairs(2) for b in pair.blocks.values()]
        assert log.stat().st_size > before
    assert [b.idle_cpu for b in blocks if b.arm == "baseline"] == [0.0, 0.0]


def _standard_error(pid: int) -> str | None:
    """Return what a process's standard error leads to, None of one that has gone."""
    try:
        return str(Path(f"/proc/{pid}/fd/2").readlink())
    except OSError:
        return None


def test_a_candidate_that_floods_its_log_ends_its_trial(
    bench: Bench, tiny_view: StackView, patched: Patched
) -> None:
    with (
        pytest.raises(DoesNotServe) as caught,
        launch(bench, tiny_view, patched(FLOODS), Ledger()) as started,
    ):
        list(started.pairs(40))
    assert caught.value.reason == "output_limit"


HOLDER = """
import sys, time
from pathlib import Path
from layers.base import StackView
from layers.manifest import SandboxSection
from layers.repository.stack import Stack
from layers.sandbox.box import Sandbox
from layers.triton.environment import ensure
from layers.triton.server import Deployment

repository, worktree, logs = map(Path, sys.argv[1:4])
env = ensure(None, allow_install=False)
view = StackView(worktree, "0" * 40, Stack.open(repository).manifest, env.python)
sandbox = Sandbox.open(SandboxSection())
with Deployment(view, env, sandbox=sandbox, cpus=None, log_dir=logs) as deployment:
    with deployment.held_still() as held:
        pids = [deployment._guard.pid, *deployment._group.pids()]
        print(held, *pids, *deployment._group.places, flush=True)
        time.sleep(600)
"""


def test_an_arm_that_is_held_still_ends_with_its_killed_owner(
    tiny_repo: Path, tiny_view: StackView, tmp_path: Path
) -> None:
    argv = [sys.executable, "-c", HOLDER, str(tiny_repo), str(tiny_view.root), str(tmp_path / "l")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as owner:
        held, *words = owner.stdout.readline().split()
        assert held == "True"
        owner.send_signal(signal.SIGKILL)
    pids = [int(word) for word in words if word.isdecimal()]
    places = [Path(word) for word in words if word.startswith("/")]
    assert len(pids) > 4
    deadline = time.monotonic() + 60
    while any(map(_runs, pids)) or any(place.exists() for place in places):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


# --- memory and start-up -----------------------------------------------------------------------


def test_memory_and_start_of_both_arms_are_told(
    bench: Bench, tiny_view: StackView, patched: Patched
) -> None:
    ledger = Ledger()
    slow = f"import time\ntime.sleep(4)\n{HOARDS}"
    with launch(bench, tiny_view, patched(slow), ledger) as started:
        list(started.pairs(1))
    costs = ledger.costs()
    old, new = costs.baseline, costs.candidate
    assert new.memory_begin_mib > old.memory_begin_mib + 250
    assert new.memory_end_mib > old.memory_end_mib + 250
    assert new.memory_peak_mib is None or new.memory_peak_mib >= new.memory_end_mib
    assert new.ready_s >= 4.0
    assert any(line.startswith("it holds ") for line in ledger.warnings())
    assert ledger.held


# --- the server's socket -----------------------------------------------------------------------


def test_a_candidate_that_takes_its_servers_place_ends_its_trial(
    bench: Bench, tiny_view: StackView, patched: Patched
) -> None:
    with (
        pytest.raises(DoesNotServe) as caught,
        launch(bench, tiny_view, patched(TAKES_THE_PLACE), Ledger()) as started,
    ):
        list(started.pairs(40))
    assert caught.value.reason == "answers_in_the_servers_place"


# --- more at once than blocks have in flight ---------------------------------------------------

RESPOND = "return [self._respond(request) for request in requests]"
RETURN = 'pb_utils.Tensor("features", features[np.newaxis])'
WRONG_BEYOND_FOUR = """self.place = 0
        answers = []
        for self.place, request in enumerate(requests):
            answers.append(self._respond(request))
        return answers"""
RAISES_BEYOND_FOUR = """if len(requests) > 4:
            raise pb_utils.TritonModelException("too many")
        return [self._respond(request) for request in requests]"""
BATCHED = "\ndynamic_batching { }\n"


def trial(change_class: ChangeClass = ChangeClass.EXACT) -> Trial:
    hypothesis = Hypothesis(
        layer=LayerName.FEATURES,
        card="card",
        transform="card",
        model="tiny_features",
        title="Title",
        why="because",
        share=0.5,
        expected_gain=0.5,
        best_gain=0.8,
        change_class=change_class,
    )
    edit = Edit({FEATURES: b""}, "Do it", "It is right.")
    return Trial(1, Candidate(hypothesis, edit, "fvec/b", "base", "head", Path("/w"), "diff"))


def hold(answers: Iterable[Compared], same: frozenset[str] | None) -> Comparison:
    if same is None:
        return compare(answers, ChangeClass.EXACT, None, frozenset({"score"}))
    return compare(answers, ChangeClass.CONFIG, None, same, referee_required=False)


def in_blocks_and_burst(bench: Bench, baseline: StackView, candidate: StackView) -> Trial:
    """Hold what both answer in two blocks to be equal, then what they answer to a burst."""
    found = trial()
    with launch(bench, baseline, candidate, Ledger()) as started:
        for pair in started.pairs(2):
            both = pair.results["baseline"], pair.results["candidate"]
            assert hold(timed(*both), None).passed
        burst.station(found, started, bench, hold)
    return found


def test_an_honest_arm_answers_a_burst(
    bench: Bench, tiny_view: StackView, patched: Patched
) -> None:
    found = in_blocks_and_burst(bench, tiny_view, patched(config=BATCHED))
    assert [(g.name, g.reason) for g in found.gates] == [("burst", "burst_answered")]
    assert found.gates[0].detail == "64 requests at once: 0 failed, 0 of the baseline's"
    assert found.outputs_compared == 64


def test_answers_that_are_wrong_once_more_than_four_wait_are_seen(
    bench: Bench, tiny_view: StackView, patched: Patched
) -> None:
    wrong = RETURN.replace("features[np.newaxis]", "features[np.newaxis] * (self.place < 4)")
    view = patched("", (RESPOND, WRONG_BEYOND_FOUR), (RETURN, wrong), config=BATCHED)
    with pytest.raises(TrialEnded) as caught:
        in_blocks_and_burst(bench, tiny_view, view)
    assert (caught.value.verdict.value, caught.value.reason) == ("rejected", "outputs_differ")


def test_requests_that_fail_once_more_than_four_wait_are_seen(
    bench: Bench, tiny_view: StackView, patched: Patched
) -> None:
    view = patched("", (RESPOND, RAISES_BEYOND_FOUR), config=BATCHED)
    with pytest.raises(TrialEnded) as caught:
        in_blocks_and_burst(bench, tiny_view, view)
    assert (caught.value.verdict.value, caught.value.reason) == ("rejected", "more_errors")
    assert "too many" in caught.value.detail


def test_a_queue_that_refuses_a_burst_is_seen(
    bench: Bench, tiny_view: StackView, patched: Patched
) -> None:
    refuses = "\ndynamic_batching { default_queue_policy { max_queue_size: 8 } }\n"
    with pytest.raises(TrialEnded) as caught:
        in_blocks_and_burst(bench, tiny_view, patched(config=refuses))
    assert (caught.value.verdict.value, caught.value.reason) == ("rejected", "more_errors")
