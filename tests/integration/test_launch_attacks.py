"""Patches that gain by what they do beside serving, on real launches of the tiny stack."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from layers.base import StackView
from layers.events import Silent
from layers.evidence import Block
from layers.manifest import SandboxSection
from layers.measure import launch as launches
from layers.measure.checks import Limits
from layers.measure.launch import Bench, DoesNotServe, Launch
from layers.measure.load import LoadGenerator
from layers.sandbox.box import Sandbox
from layers.traffic.recorded import Traffic
from layers.triton.environment import ServerEnvironment

pytestmark = [pytest.mark.triton, pytest.mark.alone]

MODEL = "models/tiny_ranker/1/model.py"
CPUS = sorted(os.sched_getaffinity(0))
SERVER, GENERATOR = CPUS[0], CPUS[-1]
# The machine of the tests is not quiet; what is under test lies with the candidate.
LAX = Limits(neighbour_cores=1e3, generator_cores=1e3, lag_floor_ms=1e9)
WORKS_WHEN_IDLE = """
import threading, time
_came = [0.0]

def _burn():
    while True:
        time.sleep(0.05)
        while time.monotonic() - _came[0] > 0.1:
            end = time.thread_time() + 0.01
            while time.thread_time() < end:
                pass
            time.sleep(0.03)

threading.Thread(target=_burn, daemon=True).start()
"""
NOTES_REQUESTS = "        responses = []\n"
STARTS_A_PROGRAM = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "while True: sum(range(10000))"])
"""
MOVES = f"""
import os
try:
    os.sched_setaffinity(0, [{GENERATOR}])
except OSError:
    pass
"""
HASHES = """
import sys
print("HASH", hash("a"), file=sys.stderr, flush=True)
"""
two_cpus = pytest.mark.skipif(len(CPUS) < 2, reason="this machine has one CPU")


@pytest.fixture
def bench(
    tiny_view: StackView,
    server_env: ServerEnvironment,
    sandbox: Sandbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Bench]:
    monkeypatch.setattr(launches, "Limits", lambda: LAX)
    server = tiny_view.manifest.server.model_copy(update={"cpus": [SERVER]})
    manifest = tiny_view.manifest.model_copy(update={"server": server})
    traffic = Traffic.load(tiny_view.root, manifest.traffic)
    with LoadGenerator(traffic, cpus=[GENERATOR], work_dir=tmp_path / "load") as load:
        yield Bench(
            env=server_env,
            sandbox=sandbox,
            load=load,
            manifest=manifest,
            log_dir=tmp_path / "logs",
            rng=np.random.default_rng(1),
            block_requests=min(400, len(traffic.requests)),
            events=Silent(),
            on_block=lambda block: None,
        )


@pytest.fixture
def patched(tiny_view: StackView, tmp_path: Path) -> Callable[[str], StackView]:
    def make(code: str) -> StackView:
        root = tmp_path / "patched"
        shutil.copytree(tiny_view.root, root)
        text = (root / MODEL).read_text()
        noted = f"{NOTES_REQUESTS}        globals().get('_came', [0])[0] = time.monotonic()\n"
        (root / MODEL).write_text(f"import time\n{code}\n{text.replace(NOTES_REQUESTS, noted)}")
        return replace(tiny_view, root=root)

    return make


def blocks_of(bench: Bench, baseline: StackView, candidate: StackView, pairs: int) -> list[Block]:
    with Launch(bench, 1, baseline, candidate, "test") as started:
        return [b for pair in started.pairs(pairs) for b in pair.blocks.values()]


def test_both_arms_of_an_honest_launch_are_hardly_busy_while_idle(
    bench: Bench, tiny_view: StackView, patched: Callable[[str], StackView]
) -> None:
    blocks = blocks_of(bench, tiny_view, patched(""), 4)
    assert len(blocks) == 8
    assert max(b.idle_cpu for b in blocks) < 0.05
    assert all(b.idle_frozen for b in blocks)
    assert all(set(b.cpu_s) >= {"tritonserver", "tiny_ranker", "tiny_features"} for b in blocks)


def unheld(bench: Bench) -> Bench:
    """Return the bench of a machine on which no arm can be held still."""
    return replace(bench, sandbox=Sandbox.open(SandboxSection(mode="no-cgroup")))


@pytest.mark.parametrize("code", [WORKS_WHEN_IDLE, STARTS_A_PROGRAM])
def test_what_would_slow_the_other_arm_stands_still_meanwhile(
    bench: Bench, tiny_view: StackView, patched: Callable[[str], StackView], code: str
) -> None:
    blocks = blocks_of(bench, tiny_view, patched(code), 3)
    assert [b.idle_cpu for b in blocks if b.arm == "baseline"] == [0.0] * 3
    assert all(b.idle_frozen for b in blocks)


@pytest.mark.parametrize("code", [WORKS_WHEN_IDLE, STARTS_A_PROGRAM])
def test_what_slows_the_other_arm_ends_the_trial_where_nothing_holds_it(
    bench: Bench, tiny_view: StackView, patched: Callable[[str], StackView], code: str
) -> None:
    seen: list[Block] = []
    watched = replace(unheld(bench), on_block=seen.append)
    with pytest.raises(DoesNotServe) as caught:
        blocks_of(watched, tiny_view, patched(code), 4)
    assert caught.value.reason == "works_while_idle"
    assert {b.idle_frozen for b in seen} == {False}


@pytest.mark.parametrize("held", [True, False])
def test_cpu_of_a_program_that_a_model_started_is_its_arms_own(
    bench: Bench, tiny_view: StackView, patched: Callable[[str], StackView], *, held: bool
) -> None:
    seen: list[Block] = []
    watched = replace(bench if held else unheld(bench), on_block=seen.append)
    blocks_of(watched, tiny_view, patched(STARTS_A_PROGRAM), 1)
    assert all(b.cpu_s["other"] > 0 for b in seen if b.arm == "candidate")
    assert all(b.cpu_s.get("other", 0.0) < 0.1 * b.wall_s for b in seen if b.arm == "baseline")


@two_cpus
def test_a_model_cannot_leave_the_cpus_of_its_group(
    bench: Bench, tiny_view: StackView, patched: Callable[[str], StackView]
) -> None:
    with Launch(bench, 1, tiny_view, patched(MOVES), "test") as started:
        pid = started.arm("candidate").pids()["tiny_ranker"]
        assert os.sched_getaffinity(pid) == {SERVER}
        os.sched_setaffinity(pid, CPUS)  # nor can anybody else move it
        assert os.sched_getaffinity(pid) == {SERVER}


@two_cpus
def test_a_model_that_leaves_its_cpus_where_nothing_holds_it_ends_the_trial(
    bench: Bench, tiny_view: StackView, patched: Callable[[str], StackView]
) -> None:
    with pytest.raises(DoesNotServe) as caught:
        blocks_of(unheld(bench), tiny_view, patched(MOVES), 1)
    assert caught.value.reason == "leaves_its_cpus"
    assert f"may run on CPUs [{GENERATOR}]" in caught.value.message


def test_every_process_of_a_model_orders_its_sets_anew(
    bench: Bench, patched: Callable[[str], StackView]
) -> None:
    """Code that is right under one seed of Python's hashes only has no seed to rely on."""
    view = patched(HASHES)
    with Launch(bench, 1, view, view, "test") as started:
        hashes = {_hash(started.arm(arm).log) for arm in launches.ARMS}
    assert len(hashes) == 2


def _hash(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").splitlines()
    return next(line for line in lines if line.startswith("HASH "))
