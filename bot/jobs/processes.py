"""Processes that outlive a worker that was killed: noted in a file, found again and ended.

A process is known by its id and the moment it started, for ids are used again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from layers.programs import kill_group

GRACE_S = 30.0  # to stop servers and remove worktrees after SIGTERM
_POLL_S = 0.05
_STARTED = 19  # of /proc/PID/stat, counted from the field after the name


def note(file: Path, pid: int) -> None:
    """Note a process that leads a group of its own."""
    file.write_text(f"{pid} {_started(pid)}\n", encoding="ascii")


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that we started with its group, gently first; one that has ended is fine."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    kill_group(process.pid)
    process.wait()


def end_left(file: Path) -> None:
    """End the process that `file` notes, which an earlier life of ours started, and its group."""
    with suppress(OSError, ValueError):
        pid, started = map(int, file.read_text(encoding="ascii").split())
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
