"""The program that owns one model server and sees to its end, whatever became of us.

Run as a file by path: `python -I guard.py PLAN ARGV...`, PLAN as JSON of the fields of `Plan`. It
starts ARGV in a process group and control groups of its own, writes its process id as one line on
stdout and waits. What the server prints goes to stderr, the server's log, up to a limit; beyond it
the pipe is still emptied, so that a server that floods its log goes on serving. When stdin closes
(the parent stopped it, raised, or was killed by any signal), when the parent's process is gone, or
on SIGTERM, it ends the group and removes the server's shared memory. Its exit code is the
server's. Standard library only.
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
from dataclasses import asdict, dataclass
from pathlib import Path

# Longer than the server's --exit-timeout-secs: it waits that long for stopped stubs by itself.
GRACE_S = 8.0
SHARED_MEMORY = Path("/dev") / "shm"
LOG_NOTE = b"\n[fvec] the log ends here: the server wrote more than %d bytes\n"
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

    def dumps(self) -> str:
        """Return the plan as the guard's first argument."""
        return json.dumps(asdict(self))


class _Stop(BaseException):
    """Raised by SIGTERM in the waiting loop."""


class Relay:
    """The pipe that a server prints into, copied to stderr as far as the limit goes."""

    def __init__(self, source: int, limit_bytes: int) -> None:
        """`source` is the reading end, which never blocks from now on."""
        os.set_blocking(source, False)
        self.sources = [source]  # empty once the last writer has gone
        self._limit = self._left = limit_bytes

    def pump(self) -> bool:
        """Take one chunk from the pipe; False when nothing is there now."""
        for source in self.sources:
            try:
                chunk = os.read(source, _CHUNK_BYTES)
            except BlockingIOError:
                return False
            if not chunk:
                self.sources = []
                return False
            self._keep(chunk)
        return bool(self.sources)

    def _keep(self, chunk: bytes) -> None:
        kept = memoryview(chunk)[: self._left]
        ends = len(chunk) > self._left > 0
        self._left -= len(kept)
        with contextlib.suppress(OSError):  # a full disk is no reason to stop the server
            while kept:
                kept = kept[os.write(2, kept) :]
            if ends:
                os.write(2, LOG_NOTE % self._limit)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _on_sigterm(*_: object) -> None:
    raise _Stop


def _start(plan: Plan, command: list[str], output: int) -> subprocess.Popen[bytes]:
    """Start the server: in its control groups before it runs, and gone when the guard is."""

    def before_exec() -> None:
        for file in plan.attach:
            with Path(file).open("w") as group:
                group.write(f"{os.getpid()}\n")
        for name, value in plan.rlimits.items():
            kind = getattr(resource, name)
            hard = resource.getrlimit(kind)[1]
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (bound, bound))
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        process_group=0,
        preexec_fn=before_exec,
    )


def _wait(parent: int, server: subprocess.Popen[bytes], relay: Relay) -> None:
    """Return when the server ended by itself or has to end."""
    handle = os.pidfd_open(server.pid)
    while os.getppid() == parent:
        ready, _, _ = select.select([0, handle, *relay.sources], [], [], _PARENT_CHECK_S)
        if any(source in ready for source in relay.sources):
            relay.pump()
        if handle in ready or (0 in ready and not os.read(0, 4096)):
            return


def _end(plan: Plan, server: subprocess.Popen[bytes], relay: Relay) -> int:
    """End the server and its stubs: politely where asked, then by SIGKILL; reap them all."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not plan.at_once:
        server.terminate()
        deadline = time.monotonic() + GRACE_S
        while server.poll() is None and time.monotonic() < deadline:
            if not relay.pump():
                time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    code = server.wait()
    _reap(relay, deadline=time.monotonic() + GRACE_S)
    return code if code >= 0 else 128 - code


def _reap(relay: Relay, deadline: float) -> None:
    """Wait for the stubs, which became our children when the server ended; empty the pipe."""
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG) == (0, 0) and not relay.pump():
                time.sleep(0.01)
    while time.monotonic() < deadline and relay.pump():
        pass


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
    relay = Relay(source, plan.log_bytes)
    server = _start(plan, command, output)
    os.close(output)
    try:
        signal.signal(signal.SIGTERM, _on_sigterm)
        os.write(1, f"{server.pid}\n".encode())
        _wait(plan.parent, server, relay)
    except (_Stop, BrokenPipeError):
        pass
    finally:
        code = _end(plan, server, relay)
        _clean(plan)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
