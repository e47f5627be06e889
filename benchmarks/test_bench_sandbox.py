"""What the sandbox costs: on a timed call of a program that runs in it, and at its start."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from scipy import stats

from benchmarks.support import Show, once
from bot.render import numbers
from layers.errors import Missing
from layers.manifest import SandboxMode, SandboxSection
from layers.programs import ONE_THREAD
from layers.sandbox.base import Confinement
from layers.sandbox.box import Sandbox

LAUNCHES, CALLS = 48, 32  # both processes are started afresh for each launch
WARM_UP = 8
STARTS = 30
SEED = 23
INTERPRETER = (sys.executable, "-P", "-s", "-c")
ENV = {"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "0", **ONE_THREAD}
# Some milliseconds of numpy and Python, with memory that is mapped and given back in every call.
WORKER = """
import sys
import numpy as np
rows = np.random.default_rng(0).standard_normal((200, 200))
for line in sys.stdin:
    table = {str(key): key for key in range(4000)}
    large = np.full(2**18, float(line))
    found = (rows @ rows).sum() + large.sum() + np.sort(rows, axis=None)[0] + len(table)
    print(found, flush=True)
"""


@dataclass(frozen=True, slots=True)
class Arm:
    """A worker that waits for calls."""

    stdin: IO[bytes]
    stdout: IO[bytes]
    pid: int

    def call(self, number: int) -> tuple[float, float]:
        """Return the wall seconds of a call by this process's clock, and the worker's CPU seconds."""
        cpu_clock = (~self.pid << 3) | 2  # what clock_getcpuclockid(3) returns
        cpu, wall = time.clock_gettime(cpu_clock), time.perf_counter()
        self.stdin.write(b"%d\n" % number)
        self.stdin.flush()
        if not self.stdout.readline():
            pytest.fail(f"a worker died at call {number}")
        return time.perf_counter() - wall, time.clock_gettime(cpu_clock) - cpu


@contextmanager
def plain(cpu: int) -> Iterator[Arm]:
    """Start a worker as a process like any other."""
    argv = ["taskset", "-c", str(cpu), *INTERPRETER, WORKER]
    with subprocess.Popen(
        argv,
        env=ENV,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # the scheduler shares a CPU out among sessions first
    ) as process:
        yield _arm(process, process.pid)


@contextmanager
def jailed(sandbox: Sandbox, cpu: int) -> Iterator[Arm]:
    """Start a worker in the sandbox."""
    with sandbox.start(
        [*INTERPRETER, WORKER],
        cwd=Path("/"),
        env=ENV,
        confinement=Confinement((), (), sandbox.limits),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cpus=[cpu],
    ) as jail:
        yield _arm(jail.process, jail.pid)


def _arm(process: subprocess.Popen[bytes], pid: int) -> Arm:
    if process.stdin is None or process.stdout is None:
        pytest.fail("a worker without pipes")
    return Arm(process.stdin, process.stdout, pid)


def _strict() -> Sandbox:
    try:
        return Sandbox.open(SandboxSection())
    except Missing as error:
        pytest.skip(error.message)


Start: TypeAlias = Callable[[int], AbstractContextManager[Arm]]


def launch(first: Start, second: Start, rng: random.Random) -> npt.NDArray[np.float64]:
    """Return log(second / first) of the lower quartiles over interleaved calls: wall s, CPU s.

    The lower quartile: what a busy neighbour or the hypervisor takes is not the sandbox's, and a
    CPU clock may stand still for a call while the hypervisor's share is put to account.
    """
    cpu = max(os.sched_getaffinity(0))
    starts = [first, second]
    rng.shuffle(starts)
    with starts[0](cpu) as one, starts[1](cpu) as other:
        arms = [one, other] if starts == [first, second] else [other, one]
        seconds = np.empty((WARM_UP + CALLS, 2, 2))
        for number in range(len(seconds)):
            for arm in rng.sample((0, 1), 2):
                seconds[number, arm] = arms[arm].call(number)
    low: npt.NDArray[np.float64] = np.quantile(seconds[WARM_UP:], 0.25, axis=0)
    ratios: npt.NDArray[np.float64] = np.log(low[1] / low[0])
    return ratios


def ratios(second: Start) -> list[npt.NDArray[np.float64]]:
    """Return what each launch says of `second` against a plain process."""
    rng = random.Random(SEED)
    return [launch(plain, second, rng) for _ in range(LAUNCHES)]


def _cells(log_ratios: npt.NDArray[np.float64]) -> list[str]:
    """Return mean and 95 % t-interval over launches, as ratios."""
    low, high = stats.t.interval(
        0.95, len(log_ratios) - 1, log_ratios.mean(), stats.sem(log_ratios)
    )
    mean, *ends = (f"{np.exp(value):.4f}" for value in (log_ratios.mean(), low, high))
    return [mean, " to ".join(ends)]


def test_overhead(benchmark: BenchmarkFixture, show: Show) -> None:
    """Time the same call inside and outside of the sandbox, and outside twice."""
    sandbox = _strict()
    found = once(
        benchmark,
        lambda: {sandbox.describe(): ratios(partial(jailed, sandbox)), "none": ratios(plain)},
    )
    rows = []
    for name, launches in found.items():
        wall, cpu = np.array(launches).T
        rows.append([name, *_cells(wall), *_cells(cpu)])
    show(
        f"**A timed call in the sandbox**: time over that of a plain process, pinned to the same "
        f"CPU; {LAUNCHES} launches of {CALLS} interleaved pairs of calls, lower quartiles, with 95 % "
        "intervals over launches.",
        ["sandbox", "wall ratio", "interval", "CPU ratio", "interval"],
        rows,
    )


def start_ms(run: Callable[[], object]) -> float:
    """Return the median wall milliseconds of a start to end of a program that does nothing."""
    found = []
    for _ in range(STARTS):
        began = time.perf_counter()
        run()
        found.append(1000 * (time.perf_counter() - began))
    return float(np.median(found))


def run_true(sandbox: Sandbox) -> None:
    """Run a program that does nothing, confined."""
    confinement = Confinement((), (), sandbox.limits)
    with sandbox.start(["true"], cwd=Path("/"), env=ENV, confinement=confinement) as jail:
        if jail.wait(60.0) != 0:
            pytest.fail(f"true ended with {jail.ending()}")


def starts() -> dict[str, float]:
    """Return the median milliseconds of a program's start and end, by what it runs in."""
    found = {"a plain process": start_ms(partial(subprocess.run, ["true"], check=True))}
    for mode in SandboxMode:
        try:
            sandbox = Sandbox.open(SandboxSection(mode=mode))
        except Missing:
            continue
        found[sandbox.describe()] = start_ms(partial(run_true, sandbox))
    return found


def test_start(benchmark: BenchmarkFixture, show: Show) -> None:
    """Time start and end of a program that does nothing."""
    found = once(benchmark, starts)
    show(
        f"**Start and end of a program that does nothing**: median of {STARTS}, milliseconds.",
        ["runs in", "ms"],
        [[name, numbers.number(value)] for name, value in found.items()],
    )
