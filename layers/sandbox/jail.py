"""One confined program, seen from its owner: its process ids, its CPU time, how it ended."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Self, TypeAlias

from layers.errors import ToolFailed
from layers.sandbox import launcher
from layers.sandbox.base import Ending
from layers.sandbox.cgroups import Group

Process: TypeAlias = subprocess.Popen[bytes]
Stream: TypeAlias = int | IO[bytes]
_LAUNCHER = Path(launcher.__file__)
_START_S = 30.0
_STOP_S = 15.0
_SIGNALLED = range(128 + 1, 128 + 65)  # how shells and bubblewrap pass on the ending signal


@dataclass(frozen=True, slots=True)
class Order:
    """What the launcher is told, as JSON, with what `_of_group` and `_capped` add."""

    argv: Sequence[str]
    bubblewrap: bool
    cwd: str
    env: Mapping[str, str]
    rlimits: Mapping[str, int]
    cpus: Sequence[int]
    writable: Sequence[str]
    disk_bytes: int
    output_bytes: int
    barred: str  # system calls that it may not make: a filter for bubblewrap, in hexadecimal


class Jail:
    """A confined program that runs; as a context manager it leaves nothing behind.

    `process` is the outer program: its `stdin`, `stdout` and `stderr` are pipes where they were
    asked for as such. A pipe, the owner's own too, is bounded by whoever reads it and adds no
    delay; a file is written through a relay that keeps the output limit: who writes more is ended.
    """

    def __init__(self, order: Order, group: Group | None, streams: Sequence[Stream]) -> None:
        """Start the program and return once it runs or has ended already.

        Raises ToolFailed when the launcher or bubblewrap cannot start it; nothing is left then.
        """
        self.pid = 0
        self._root = 0  # all processes of the program descend from it
        self._group = group
        self._received = b""
        self._end: dict[str, Any] = {}
        self._limit: Ending | None = None
        self._closed = False
        self._cpu_s = 0.0
        with ExitStack() as undo:
            if group is not None:
                undo.callback(group.__exit__)
            self._control, theirs = socket.socketpair()
            undo.callback(self._control.close)
            with theirs:
                self.process = self._launched(theirs, streams)
            undo.callback(self.close)
            message = asdict(order) | _of_group(group) | {"capped": _capped(streams)}
            with suppress(BrokenPipeError):
                self._control.sendall(json.dumps(message).encode() + b"\n")
            self._await_start()
            undo.pop_all()

    def __enter__(self) -> Self:
        """Return itself: the program runs already."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the program and all that it started; see `close`."""
        self.close()

    @property
    def code(self) -> int | None:
        """Exit code of a program that has ended; 128 + N, or -N, after signal N."""
        code = self._end.get("code")
        return code if isinstance(code, int) else None

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit code once the program has ended, None when a limit ended it.

        When `timeout_s` is over the program is ended: the ending is `time_limit` then. Whoever
        asked for a pipe reads it first: a program that waits for its reader does not end.
        """
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        return self.code if self.ending() in (Ending.EXITED, Ending.CRASHED) else None

    def kill(self) -> None:
        """End all processes of the program and wait until they are gone; idempotent."""
        if self.process.poll() is None:
            with suppress(OSError):
                self._control.sendall(b"stop")
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()  # bubblewrap dies with it
            self.process.wait()
        if self._group is not None:
            self._group.kill()

    def close(self) -> None:
        """End the program, close its pipes, remove its control group; idempotent."""
        if self._closed:
            return
        self.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):  # what had not been written to it
                    stream.close()
        self._listen()
        self._control.close()
        self._kernel_limit()  # the counters go with the group
        self._closed = True
        if self._group is not None:
            self._cpu_s = self._group.cpu_seconds()
            self._group.remove()

    def ending(self) -> Ending:
        """Return how the program ended; a limit that was reached goes before what followed.

        A program that its owner ended had used up the owner's time. Without a control group a
        memory or process limit looks like any other error of the program. Raises ToolFailed while
        it runs, and when the launcher or bubblewrap broke.
        """
        if self.process.poll() is None:
            raise ToolFailed("a confined program was asked how it ended while it runs")
        self._listen()
        reason, code = self._end.get("reason"), self.code
        limit = reason if reason in set(Ending) else self._kernel_limit()
        if limit is not None:
            return Ending(limit)
        if reason is not None:
            return Ending.TIME_LIMIT
        if code is None:
            detail = self._end.get("error") or "its own message says why"
            raise ToolFailed(f"a confined program could not be run: {detail}")
        return Ending.CRASHED if code < 0 or code in _SIGNALLED else Ending.EXITED

    def cpu_seconds(self) -> float:
        """Return CPU seconds of all the program's processes so far, its start included.

        From the control group, ended processes included and up to a scheduler's tick old. Without
        one: of the processes that live, exact.
        """
        if self._group is not None:
            return self._cpu_s if self._closed else self._group.cpu_seconds()
        return sum(map(_cpu_clock_s, self.pids()))

    def pids(self) -> tuple[int, ...]:
        """Return the ids of the program's processes as this machine counts them, oldest first."""
        return tuple(launcher.descendants(self._root)) if self.process.poll() is None else ()

    def _launched(self, control: socket.socket, streams: Sequence[Stream]) -> Process:
        """Start the launcher, whose environment holds nothing of ours."""
        stdin, stdout, stderr = streams
        number = control.fileno()
        try:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", str(_LAUNCHER), str(number)],
                env={},
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=[number],
                start_new_session=True,  # ctrl-C at the terminal is ours to handle
            )
        except OSError as error:
            raise ToolFailed(f"the sandbox's launcher could not be started: {error}") from error

    def _await_start(self) -> None:
        """Wait until the program has a process id, or is over."""
        self._control.settimeout(_START_S)
        try:
            while not self.pid and not self._end and self._listen_once():
                pass
        except TimeoutError as error:
            raise ToolFailed(f"a sandbox was not ready after {_START_S:g} s") from error
        if not self.pid and not self._end:
            raise ToolFailed("the sandbox's launcher died")
        if self._end.get("error") and self.code is None:
            raise ToolFailed(f"a confined program could not be run: {self._end['error']}")
        self.pid = self.pid or self._root  # over already: the id of nothing that runs

    def _listen(self) -> None:
        """Take in all that the launcher, which has ended, had to say."""
        while not self._closed and self._listen_once():
            pass

    def _listen_once(self) -> bool:
        """Take in what the launcher says next; False at its end."""
        try:
            read = self._control.recv(65536)
        except ConnectionResetError:  # it ended without reading our last word
            read = b""
        *lines, self._received = (self._received + read).split(b"\n")
        for line in lines:
            said = json.loads(line)
            self._root = said.get("init", self._root)
            self.pid = said.get("pid", self.pid)
            self._end = said.get("end", self._end)
        return bool(read)

    def _kernel_limit(self) -> Ending | None:
        """Return the limit that the control group's counters tell of."""
        if self._group is not None and not self._closed:
            if self._group.memory_killed():
                self._limit = Ending.MEMORY_LIMIT
            elif self._group.processes_refused():
                self._limit = Ending.PROCESS_LIMIT
        return self._limit


def _of_group(group: Group | None) -> dict[str, Any]:
    """Return what the launcher has to know of the control group."""
    if group is None:
        return {"attach": [], "group": [], "counters": {}}
    return {
        "attach": [str(path) for path in group.attach_paths],
        "group": [str(path) for path in group.places],
        "counters": {why: (str(path), key) for why, (path, key) in group.counters.items()},
    }


def _capped(streams: Sequence[Stream]) -> list[list[int]]:
    """Return the descriptors to relay: those of files; one pipe where both outputs go to one."""
    _, stdout, stderr = streams
    if stderr == subprocess.STDOUT:
        return [] if _is_bounded(stdout) else [[1, 2]]
    return [[fd] for fd, stream in ((1, stdout), (2, stderr)) if not _is_bounded(stream)]


def _is_bounded(stream: Stream) -> bool:
    """Say whether a stream cannot fill anything: a pipe or socket waits for its reader."""
    if stream in (subprocess.PIPE, subprocess.DEVNULL):
        return True
    mode = os.fstat(stream if isinstance(stream, int) else stream.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _cpu_clock_s(pid: int) -> float:
    """Return user plus system CPU seconds of a live process; 0 for one that has gone."""
    # The clock id that clock_getcpuclockid(3) makes of a process id: CPUCLOCK_SCHED of all threads.
    with suppress(OSError):
        return time.clock_gettime((~pid << 3) | 2)
    return 0.0
