"""Measure this machine: one core and all cores, every probe in turn, the turns in random order.

What a floor takes of it is the best of all repetitions: a floor is the least time, so its constants are the
most that the machine was seen to do. Median and interval say how steady that was.
"""

from __future__ import annotations

import json
import os
import random
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from layers.calibration.echo import HEAD
from layers.calibration.rates import Measured
from layers.errors import Missing, ToolFailed
from layers.places import usable_cpus
from layers.programs import ONE_THREAD, scrubbed_environment

REPETITIONS = 15
LEAST_BYTES = 256 << 20  # of an array: far more than caches hold
MESSAGES, MESSAGE_BYTES = 500, 64 << 20
ANSWER_S = 120.0
DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "int8": "int8"}
_FOLDER = Path(__file__).parent
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True, slots=True)
class Arm:
    """What so many cores did: bytes per second of memory, operations per second by dtype."""

    cores: int
    memory: Mapping[str, Measured]  # `copy` (read and written bytes) and `read`
    matrices: Mapping[str, Measured]  # by dtype, as cards name them


@dataclass(frozen=True, slots=True)
class Calibration:
    """All that was measured, and what the system says of itself."""

    processor: str
    library: str
    memory_bytes: int
    cache_bytes: int | None  # of the last level; None where the system does not say
    load: float  # runnable processes in the minute before
    arms: tuple[Arm, ...]
    latency_s: Measured  # of one message between two processes: half a round trip
    link_bytes_per_s: Measured


@dataclass(frozen=True, slots=True)
class _Worker:
    """A measuring process: probe names go in, rates come out."""

    cores: int
    asked: IO[str]
    answers: IO[str]
    complaints: IO[bytes]

    def answer(self) -> object:
        """Return the next line; raises ToolFailed where none comes."""
        if select.select([self.answers], [], [], ANSWER_S)[0]:
            line = self.answers.readline()
            if line:
                return json.loads(line)
        self.complaints.seek(0)
        last = self.complaints.read().decode(errors="replace").strip().rpartition("\n")[2]
        raise ToolFailed(f"no answer from the measuring process on {self.cores} cores: {last}")

    def rate(self, probe: str) -> float:
        """Return a probe's rate, measured now."""
        self.asked.write(probe + "\n")
        self.asked.flush()
        found = self.answer()
        if not isinstance(found, float):
            raise ToolFailed(f"the measuring process answered {found!r} for {probe}")
        return found


@dataclass(frozen=True, slots=True)
class _Able:
    """A measuring process and what it said of itself."""

    worker: _Worker
    library: str
    probes: list[str]


def calibrate(
    repetitions: int = REPETITIONS, told: Callable[[int, int], None] | None = None
) -> Calibration:
    """Return what this machine does; takes half a minute. `told` hears of repetitions done, and of all.

    Raises Missing without torch and NumPy, ToolFailed where a measuring process breaks.
    """
    if not (find_spec("torch") or find_spec("numpy")):
        raise Missing("neither torch nor NumPy is installed", hint="pip install 'fvec[engine]'")
    load = os.getloadavg()[0]
    cache = _last_cache_bytes()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    size = min(max(LEAST_BYTES, 8 * (cache or 0)), memory // 16)
    with ExitStack() as stack:
        workers = [stack.enter_context(_worker(cores, size)) for cores in _core_counts()]
        peer = stack.enter_context(_peer())
        found = _interleaved(workers, peer, repetitions, told)
    arms = tuple(_arm(worker, found) for worker in workers)
    latency, link = Measured(found[0, "latency"]), Measured(found[0, "link"])
    return Calibration(_processor(), workers[0].library, memory, cache, load, arms, latency, link)


def _core_counts() -> list[int]:
    return sorted({1, usable_cpus()})


def _interleaved(
    workers: list[_Able],
    peer: socket.socket,
    repetitions: int,
    told: Callable[[int, int], None] | None,
) -> dict[tuple[int, str], list[float]]:
    """Return the repetitions of every probe by cores and name; one at a time, each round reordered."""
    turns: list[tuple[tuple[int, str], Callable[[], float]]] = [
        ((able.worker.cores, probe), partial(able.worker.rate, probe))
        for able in workers
        for probe in able.probes
    ]
    turns += [((0, "latency"), partial(_latency, peer)), ((0, "link"), partial(_link, peer))]
    found: dict[tuple[int, str], list[float]] = {key: [] for key, _ in turns}
    for done in range(repetitions):
        random.shuffle(turns)
        for key, measure in turns:
            found[key].append(measure())
        if told:
            told(done + 1, repetitions)
    return found


def _arm(able: _Able, found: Mapping[tuple[int, str], list[float]]) -> Arm:
    cores = able.worker.cores
    measured = {probe: Measured(found[cores, probe]) for probe in able.probes}
    memory = {probe: measured[probe] for probe in ("copy", "read")}
    matrices = {DTYPES[probe]: rates for probe, rates in measured.items() if probe in DTYPES}
    return Arm(cores, memory, matrices)


@contextmanager
def _worker(cores: int, size: int) -> Iterator[_Able]:
    """Start a measuring process that has so many threads; it is gone afterwards."""
    threads = dict.fromkeys(ONE_THREAD, str(cores))
    argv = [sys.executable, "-I", str(_FOLDER / "worker.py"), str(cores), str(size)]
    with TemporaryFile() as complaints, _process(argv, threads, complaints) as process:
        if process.stdin is None or process.stdout is None:
            raise ToolFailed("the measuring process has no standard input and output")
        worker = _Worker(cores, process.stdin, process.stdout, complaints)
        said = worker.answer()
        if not isinstance(said, dict):
            raise ToolFailed(f"the measuring process said {said!r} of itself")
        yield _Able(worker, said["library"], said["probes"])


@contextmanager
def _peer() -> Iterator[socket.socket]:
    """Start the other end of a loopback connection and return ours."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(ANSWER_S)
        argv = [sys.executable, "-I", str(_FOLDER / "echo.py"), str(server.getsockname()[1])]
        with _process(argv, ONE_THREAD):
            peer, _ = server.accept()
            with peer:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peer.settimeout(ANSWER_S)
                yield peer


@contextmanager
def _process(
    argv: list[str], env: Mapping[str, str], errors: IO[bytes] | int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[str]]:
    scrubbed = scrubbed_environment(home=Path("/nonexistent"))
    with subprocess.Popen(
        argv,
        env={**scrubbed, **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _latency(peer: socket.socket) -> float:
    """Return the seconds of one message: half the mean round trip of a byte."""
    started = time.perf_counter()
    for _ in range(MESSAGES):
        peer.sendall(HEAD.pack(0))
        peer.recv(1)
    return (time.perf_counter() - started) / MESSAGES / 2


def _link(peer: socket.socket) -> float:
    """Return the bytes per second of a long message."""
    content = bytes(MESSAGE_BYTES)
    started = time.perf_counter()
    peer.sendall(HEAD.pack(MESSAGE_BYTES))
    peer.sendall(content)
    peer.recv(1)
    return MESSAGE_BYTES / (time.perf_counter() - started)


def _last_cache_bytes() -> int | None:
    """Return the size of the largest cache of the first core, where Linux says it."""
    found = []
    for path in _CACHES.glob("index*/size"):
        text = path.read_text().strip()
        if text[-1:] in "KM" and text[:-1].isdecimal():
            found.append(int(text[:-1]) << (10 if text[-1] == "K" else 20))
    return max(found, default=None)


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "processor of unknown name"
