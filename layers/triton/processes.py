"""The operating system's view of a model server: its processes, their CPU time, its shared memory.

Every instance of a Python-backend model is a process of its own, a "stub". The server neither
restarts a dead stub nor reports it: the model stays "ready" and each request fails after 1 s.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath

import psutil

from layers.errors import Missing, ToolFailed
from layers.sandbox import owners
from layers.triton.guard import SHARED_MEMORY, remove_shared_memory

SERVER = "tritonserver"
_STUB = "triton_python_backend_stub"
_LOOK_S = 1.0
_GONE = {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
# <name of the owner>-<what the server appends>
_PREFIX = re.compile(r"^((fvec-\d+-\d+-\d+-[0-9a-f]+)-)")


@dataclass(frozen=True, slots=True)
class Stub:
    """One instance of a Python-backend model."""

    model: str
    pid: int
    started: float  # seconds since the epoch; a pid alone may be used again


def stubs_of(server: psutil.Process) -> tuple[Stub, ...]:
    """Return the live stubs of a server, oldest first.

    For about a second after a reload the old ones are still among them.
    """
    found = []
    for child in _children(server):
        try:
            argv, status, started = child.cmdline(), child.status(), child.create_time()
        except psutil.NoSuchProcess:
            continue
        if status not in _GONE and len(argv) > 1 and PurePath(argv[0]).name == _STUB:
            found.append(Stub(_model_of(argv[1]), child.pid, started))
    return tuple(sorted(found, key=lambda stub: (stub.started, stub.pid)))


def _model_of(path: str) -> str:
    """Return the model in <model repository>/<model>/<version>/model.py.

    A model's code can rewrite its own command line: then the program's name stands for it.
    """
    parts = PurePath(path).parts
    return parts[-3] if len(parts) > 3 else _STUB


def running(program: Path, outer_pid: int) -> psutil.Process | None:
    """Return the process that runs `program`: `outer_pid` itself, or the nearest below it."""
    generation = [outer_pid]
    while generation:
        below: list[int] = []
        for pid in generation:
            try:
                process = psutil.Process(pid)
                if process.cmdline()[:1] == [str(program)]:
                    return process
                below += [child.pid for child in process.children()]
            except psutil.NoSuchProcess:
                continue
        generation = below
    return None


def _children(server: psutil.Process) -> list[psutil.Process]:
    try:
        return server.children()
    except psutil.NoSuchProcess:
        return []


def newest(stubs: Iterable[Stub]) -> dict[str, int]:
    """Return the process id of the youngest stub of each model: the one to profile."""
    return {stub.model: stub.pid for stub in stubs}


class Loading:
    """Notices a stub that ended while its model loads; the server waits half a minute for it."""

    def __init__(self, server: psutil.Process) -> None:
        """Watch the stubs of a server that starts."""
        self._server = server
        self._ended: set[int] = set()
        self._next_s = 0.0

    def broken(self) -> bool:
        """Say whether a stub has been gone for a while without the server's notice.

        One that the server itself ended is reaped at once. Looks once a second only.
        """
        if time.monotonic() < self._next_s:
            return False
        self._next_s = time.monotonic() + _LOOK_S
        earlier, self._ended = self._ended, _ended_stubs(self._server)
        return not earlier.isdisjoint(self._ended)


def _ended_stubs(server: psutil.Process) -> set[int]:
    """Return the process ids of stubs that have ended and were not reaped."""
    found = set()
    for child in _children(server):
        with suppress(psutil.NoSuchProcess):
            # The kernel cuts names at 15 bytes; a zombie's command line is empty.
            if child.status() in _GONE and _STUB.startswith(child.name()):
                found.add(child.pid)
    return found


def check_alive(pid: int, name: str, started: float | None = None) -> None:
    """Raise ToolFailed when a process has died or been stopped (a stopped stub stalls requests).

    A tracing stop is a profiler at work and passes.
    """
    try:
        process = psutil.Process(pid)
        status = process.status()
        replaced = started is not None and process.create_time() != started
    except psutil.NoSuchProcess:
        status, replaced = psutil.STATUS_DEAD, False
    if replaced or status in _GONE:
        raise ToolFailed(f"the process of {name} (pid {pid}) has died")
    if status == psutil.STATUS_STOPPED:
        raise ToolFailed(f"the process of {name} (pid {pid}) is stopped")


def kill(stubs: Iterable[Stub]) -> None:
    """Send SIGKILL to the stubs that still run; a process id that was used again is spared."""
    for stub in stubs:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(stub.pid)
            if process.create_time() == stub.started:
                process.kill()


def cpu_time_s(pid: int) -> float:
    """Return user plus system CPU seconds of a process, all its threads, ended ones included.

    From the process's CPU clock: nanoseconds, where /proc counts ticks of 10 ms. Raises
    ToolFailed when the process is gone.
    """
    clock = ctypes.c_int()
    if ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock)) != 0:
        raise ToolFailed(f"process {pid} is gone")
    try:
        return time.clock_gettime(clock.value)
    except OSError as error:
        raise ToolFailed(f"process {pid} is gone") from error


def cpu_seconds(server_pid: int, stubs: Sequence[Stub]) -> dict[str, float]:
    """Return CPU seconds by process name: the server itself, and each model over its stubs."""
    seconds = {SERVER: cpu_time_s(server_pid)}
    for stub in stubs:
        seconds[stub.model] = seconds.get(stub.model, 0.0) + cpu_time_s(stub.pid)
    return seconds


def descendants_cpu_s(pid: int) -> float:
    """Return CPU seconds of all that descends from a process, of what has ended too.

    Of what runs by its CPU clock; what has ended counts, in ticks of 10 ms, where its parent waited
    for it and runs itself.
    """
    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return 0.0
    total_s = 0.0
    for process in below:
        with suppress(psutil.NoSuchProcess, ToolFailed):
            ended = process.cpu_times()
            total_s += cpu_time_s(process.pid) + ended.children_user + ended.children_system
    return total_s


def family(server: psutil.Process) -> list[int]:
    """Return the ids of a server's process and of all below it that still run."""
    try:
        return [server.pid, *(child.pid for child in server.children(recursive=True))]
    except psutil.NoSuchProcess:
        return []


def outside(pids: Iterable[int], cpus: Collection[int]) -> str | None:
    """Say which thread of these processes may run on a CPU that is not one of `cpus`, if any."""
    for pid in pids:
        with suppress(OSError):  # it has ended meanwhile
            for thread in sorted(int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()):
                beyond = os.sched_getaffinity(thread) - set(cpus)
                if beyond:
                    return f"thread {thread} of process {pid} may run on CPUs {sorted(beyond)}"
    return None


def new_prefix() -> str:
    """Return a prefix for shared memory names that says which process of ours it belongs to."""
    return f"{owners.new_name()}-"


def remove_leftovers() -> None:
    """Remove shared memory of servers whose owner, a process of ours, is no longer there."""
    for region in SHARED_MEMORY.glob("fvec-*"):
        match = _PREFIX.match(region.name)
        if match and owners.is_orphan(match[2]):
            remove_shared_memory(match[1])


def listener(port: int) -> psutil.Process:
    """Return the local process of this user that listens on a TCP port; Missing when unseen."""
    for process in psutil.process_iter():
        try:
            own = process.uids().real == os.getuid()
            if own and any(
                c.status == psutil.CONN_LISTEN and c.laddr.port == port
                for c in process.net_connections("tcp")
            ):
                return process
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    raise Missing(
        f"no process of this user listens on port {port} of this machine",
        hint="CPU seconds need the server on this machine and of the same user",
    )
