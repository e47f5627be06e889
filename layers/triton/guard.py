"""The program that owns one model server and sees to its end, whatever became of us.

Run as a file by path: `python -I guard.py PARENT_PID CPUS SHM_PREFIX -- ARGV...`. It starts ARGV
in a process group of its own, writes its process id as one line on stdout and waits. When its
stdin closes (the parent stopped it, raised, or was killed by any signal), when the parent's
process is gone, or on SIGTERM, it ends the group and removes the shared memory whose names begin
with SHM_PREFIX. Its exit code is the server's. Standard library only; stderr is the server's log.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

# Longer than the server's --exit-timeout-secs: it waits that long for stopped stubs by itself.
GRACE_S = 8.0
SHARED_MEMORY = Path("/dev") / "shm"
_PARENT_CHECK_S = 1.0  # a forked relative of the parent could hold our stdin open
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class _Stop(BaseException):
    """Raised by SIGTERM in the waiting loop."""


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _die_with_guard() -> None:
    """Run in the child: should the guard itself be killed, the server goes with it."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _on_sigterm(*_: object) -> None:
    raise _Stop


def _wait(parent: int, server: subprocess.Popen[bytes]) -> None:
    """Return when the server ended by itself or has to end."""
    handle = os.pidfd_open(server.pid)
    while os.getppid() == parent:
        ready, _, _ = select.select([0, handle], [], [], _PARENT_CHECK_S)
        if handle in ready or (0 in ready and not os.read(0, 4096)):
            return


def _end(server: subprocess.Popen[bytes]) -> int:
    """End the server and its stubs: politely, then by SIGKILL; reap them all."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    code = server.wait()
    _reap(deadline=time.monotonic() + GRACE_S)
    return code if code >= 0 else 128 - code


def _reap(deadline: float) -> None:
    """Wait for the stubs, which became our children when the server ended."""
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.01)


def remove_shared_memory(prefix: str) -> None:
    """Remove the shared memory files whose names begin with `prefix`."""
    for region in SHARED_MEMORY.glob(f"{prefix}*"):
        region.unlink(missing_ok=True)


def main(argv: list[str]) -> int:
    """Guard one server from its start to its end; see the module's docstring."""
    parent, cpus, prefix, separator, *command = argv
    if separator != "--" or not command:
        return 2
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if cpus:
        os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})
    server = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        process_group=0,
        preexec_fn=_die_with_guard,
    )
    try:
        signal.signal(signal.SIGTERM, _on_sigterm)
        os.write(1, f"{server.pid}\n".encode())
        _wait(int(parent), server)
    except (_Stop, BrokenPipeError):
        pass
    finally:
        code = _end(server)
        remove_shared_memory(prefix)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
