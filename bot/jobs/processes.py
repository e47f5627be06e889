"""Processes that outlive a worker that was killed: noted in a file, found again and ended.

A process is known by its id and the moment it started, for ids are used again; so is the worker
that started it, whose program is nobody else's to end while it lives.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from layers.programs import kill_group

GRACE_S = 30.0  # to stop servers and remove worktrees after SIGTERM
_POLL_S, _WAIT_S = 0.05, 0.5
_STARTED = 19  # of /proc/PID/stat, counted from the field after the name


def note(file: Path, pid: int) -> None:
    """Note a process that leads a group of its own, and that it is ours."""
    own = os.getpid()
    file.write_text(f"{pid} {_started(pid)} {own} {_started(own)}\n", encoding="ascii")


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that we started with its group, gently first; one that has ended is fine."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    kill_group(process.pid)
    process.wait()


@contextmanager
def alone(file: Path, check: Callable[[], None]) -> Iterator[int]:
    """Hold the lock `file`, waited for with `check` asked meanwhile; yields what keeps it held.

    A process that inherits the descriptor holds it as long as it lives, whatever becomes of us:
    so nothing is measured beside a program that a worker which was killed has left. Raises what
    `check` raises.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as stream:
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            check()
            time.sleep(_WAIT_S)
        yield stream.fileno()


def end_orphans(work: Path) -> None:
    """End the programs of all jobs below `work` whose worker is no more."""
    for file in work.glob("*/jobs/*/pid"):
        with suppress(OSError, ValueError):
            _, _, owner, began = map(int, file.read_text(encoding="ascii").split())
            if _started(owner) != began:
                end_left(file)


def end_left(file: Path) -> None:
    """End the process that `file` notes, which an earlier life of ours started, and its group."""
    with suppress(OSError, ValueError):
        pid, started, *_ = map(int, file.read_text(encoding="ascii").split())
        if pid > 1 and started and _started(pid) == started:
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + GRACE_S
            while _started(pid) == started and time.monotonic() < deadline:
                time.sleep(_POLL_S)
            kill_group(pid)
    file.unlink(missing_ok=True)


def _started(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; 0 where there is none."""
    try:
        text = Path("/proc", str(pid), "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()  # the name may hold blanks and brackets
    return 0 if fields[0] == "Z" else int(fields[_STARTED])
