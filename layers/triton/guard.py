"""The program that owns one model server and sees to its end, whatever became of us.

Run as a file by path: `python -I guard.py PLAN ARGV...`, PLAN as JSON of the fields of `Plan`. It
starts ARGV in a process group and control groups of its own, writes one line with two process ids
on stdout (its own, the relay's) and waits. When stdin closes (the parent stopped it, raised, or was
killed by any signal), when the parent's process is gone, or on SIGTERM, it ends the group, which may
be frozen, and removes the server's shared memory. Its exit code is the server's.

What the server prints goes to stderr, the server's log, through a relay: a process in the server's
own control groups. The work that a server makes for it is the server's own, and stands still with
it. A server that prints more than the limit is ended. Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

# Longer than the server's --exit-timeout-secs: it waits that long for stopped stubs by itself.
GRACE_S = 8.0
SHARED_MEMORY = Path("/dev") / "shm"
LOG_NOTE = b"\n[fvec] the log ends here: the server wrote more than %d bytes\n"
FLOODED = 3  # exit code of a relay that was given more than the limit
_PARENT_CHECK_S = 1.0  # a forked relative of the parent could hold our stdin open
_CHUNK_BYTES = 1 << 18
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Plan:
    """What the guard has to know besides the command."""

    parent: int  # process id
    cpus: list[int]  # to pin to; empty leaves the server free
    shared_memory: str  # the server's begins with this name; "" where it is in a namespace
    attach: list[str]  # files of control groups that take the server's process id
    log_bytes: int
    rlimits: dict[str, int]  # by name, as in `resource`
    folder: str  # its home, removed at the end; "" where that is in a namespace
    at_once: bool  # end it by SIGKILL: it is shut in, nothing has to be left tidy
    thaw: list[str]  # a file of its control group, and what lets a frozen one go on; or nothing
    barred: str  # system calls that it may not make: a filter for bubblewrap, in hexadecimal; or ""

    def dumps(self) -> str:
        """Return the plan as the guard's first argument."""
        return json.dumps(asdict(self))


class _Stop(BaseException):
    """Raised by SIGTERM in the waiting loop."""


def copy(source: int, limit: int) -> int:
    """Copy a pipe to stderr until its last writer has gone; return the relay's exit code."""
    left = limit
    while chunk := os.read(source, _CHUNK_BYTES):
        kept = memoryview(chunk)[:left]
        left -= len(kept)
        floods = len(chunk) > len(kept)
        with contextlib.suppress(OSError):  # a full disk is no reason to stop the server
            while kept:
                kept = kept[os.write(2, kept) :]
            if floods:
                os.write(2, LOG_NOTE % limit)
        if floods:
            return FLOODED
    return 0


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _on_sigterm(*_: object) -> None:
    raise _Stop


def _attach(files: Sequence[str]) -> None:
    """Bring this process into control groups."""
    for file in files:
        with Path(file).open("w") as group:
            group.write(f"{os.getpid()}\n")


def _start_relay(plan: Plan, source: int, output: int) -> int:
    """Start the relay, by a fork; return its process id once it is in the control groups."""
    reads, writes = os.pipe()
    relay = os.fork()
    if relay == 0:
        code = 1
        try:
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            for ours in (reads, output):
                os.close(ours)
            nothing = os.open(os.devnull, os.O_RDWR)
            for parents in (0, 1):
                os.dup2(nothing, parents)
            _attach(plan.attach)
            os.write(writes, b"\n")
            os.close(writes)
            code = copy(source, plan.log_bytes)
        finally:
            os._exit(code)  # nothing of the guard is to be cleaned up here
    os.close(writes)
    os.close(source)
    attached = os.read(reads, 1)
    os.close(reads)
    if not attached:
        raise OSError("the relay of the server's log could not be started")
    return relay


def _start(plan: Plan, command: list[str], output: int) -> subprocess.Popen[bytes]:
    """Start the server: in its control groups before it runs, and gone when the guard is."""

    def before_exec() -> None:
        _attach(plan.attach)
        for name, value in plan.rlimits.items():
            kind = getattr(resource, name)
            hard = resource.getrlimit(kind)[1]
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (bound, bound))
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    program, *arguments = command
    passed: list[int] = []
    if plan.barred:
        passed = [os.memfd_create("fvec")]
        os.write(passed[0], bytes.fromhex(plan.barred))
        os.lseek(passed[0], 0, os.SEEK_SET)
        arguments[:0] = ["--seccomp", str(passed[0])]
    return subprocess.Popen(
        [program, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        process_group=0,
        pass_fds=passed,
        preexec_fn=before_exec,
    )


def _wait(parent: int, server: subprocess.Popen[bytes], relay: int) -> None:
    """Return when the server ended by itself or has to end."""
    ended, copied = os.pidfd_open(server.pid), os.pidfd_open(relay)
    watched = [0, ended, copied]
    while os.getppid() == parent:
        ready, _, _ = select.select(watched, [], [], _PARENT_CHECK_S)
        if copied in ready:
            if os.waitpid(relay, 0)[1] != 0:  # it had to take too much, or was ended itself
                return
            watched.remove(copied)  # nobody prints any more, which a server may decide
        if ended in ready or (0 in ready and not os.read(0, 4096)):
            return


def _end(plan: Plan, server: subprocess.Popen[bytes]) -> int:
    """End the server and its stubs: politely where asked, then by SIGKILL; reap them all."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not plan.at_once:
        _thaw(plan)
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    _thaw(plan)  # what is frozen ends only then
    code = server.wait()
    _reap(deadline=time.monotonic() + GRACE_S)
    return code if code >= 0 else 128 - code


def _thaw(plan: Plan) -> None:
    """Let the server's control group go on: whoever froze it may be gone."""
    if plan.thaw:
        file, thawed = plan.thaw
        with contextlib.suppress(OSError):
            Path(file).write_text(thawed)


def _reap(deadline: float) -> None:
    """Wait for the relay, and for the stubs, which became our children when the server ended."""
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.01)


def remove_shared_memory(prefix: str) -> None:
    """Remove the shared memory files whose names begin with `prefix`."""
    for region in SHARED_MEMORY.glob(f"{prefix}*"):
        region.unlink(missing_ok=True)


def _clean(plan: Plan) -> None:
    if plan.shared_memory:
        remove_shared_memory(plan.shared_memory)
    if os.getppid() != plan.parent:  # else it still reads these, and removes them itself
        if plan.folder:
            shutil.rmtree(plan.folder, ignore_errors=True)
        for file in plan.attach:
            with contextlib.suppress(OSError):
                Path(file).parent.rmdir()


def main(argv: list[str]) -> int:
    """Guard one server from its start to its end; see the module's docstring."""
    plan, command = Plan(**json.loads(argv[0])), argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if plan.cpus:
        os.sched_setaffinity(0, plan.cpus)
    source, output = os.pipe()
    relay = _start_relay(plan, source, output)
    server = _start(plan, command, output)
    os.close(output)
    try:
        signal.signal(signal.SIGTERM, _on_sigterm)
        os.write(1, f"{server.pid} {relay}\n".encode())
        _wait(plan.parent, server, relay)
    except (_Stop, BrokenPipeError):
        pass
    finally:
        code = _end(plan, server)
        _clean(plan)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
