"""The parent's end of a function's process: commands, the clock, and how the process can end."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from layers.callables import codec
from layers.callables.cell import Answer, Cell, Ended, How, Loaded, confinement, environment
from layers.callables.codec import Tree
from layers.callables.spec import Spec
from layers.errors import FvecError, ToolFailed
from layers.manifest import SandboxMode
from layers.programs import tail
from layers.sandbox.base import Ending

CHUNK = 1 << 20
SMALL_FRAME = 1 << 20  # of answers in JSON and error texts
SPIN_S = 4e-4
REST_S = 2e-3  # that a process gets to fall asleep after it has answered
LIMIT_TICK_S = 0.6  # within it the sandbox ends a program that the kernel refused something

PINNED = ("reference", "candidate")
REASONS = {
    Ending.EXITED: "crashed",
    Ending.CRASHED: "crashed",
    Ending.TIME_LIMIT: "hangs",
    Ending.MEMORY_LIMIT: "memory_limit",
    Ending.PROCESS_LIMIT: "process_limit",
    Ending.OUTPUT_LIMIT: "output_limit",
}


class Process:
    """One function in one process; a context manager that leaves nothing behind."""

    def __init__(self, cell: Cell, role: str, spec: Spec, attempt: str = "0") -> None:
        """Start the process; the function is loaded by `load`. `role` and `attempt` name its log.

        Raises ToolFailed where the sandbox cannot start it.
        """
        self.role = role
        self.spec = spec
        self.time_limit_s = 60.0  # of the next answers
        self.first_call_s = 0.0  # that the first call may take beyond it
        self.frame_limit = 1 << 30  # bytes of the next answers
        self._most_put = self._most_got = 0  # bytes of arguments, and of answers, so far
        self.log = cell.logs / f"{role}-{attempt}.log"
        self._cell = cell
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        try:
            with self.log.open("ab") as log:
                self._jail = cell.sandbox.start(
                    [str(cell.python), "-u", "-P", "-s", str(cell.caller), cell.word],
                    cwd=spec.folder,
                    env=environment(cell),
                    confinement=confinement(cell, spec),
                    stdin=theirs_in,
                    stdout=theirs_out,
                    stderr=log,
                    cpus=[cell.cpu] if role in PINNED else None,
                )
        except BaseException:
            os.close(self._in)
            os.close(self._out)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        os.set_blocking(self._out, False)
        os.set_blocking(self._in, False)
        self._clock = (
            ~self._jail.pid << 3
        ) | 2  # the CPU clock of another process, see clock_getcpuclockid
        self._closed = False
        self._stat, self._schedstat = self._opened("stat"), self._opened("schedstat")
        self._own = os.open("/proc/thread-self/schedstat", os.O_RDONLY)

    def _opened(self, name: str) -> int:
        """Open a file that the kernel keeps about the process."""
        try:
            return os.open(f"/proc/{self._jail.pid}/{name}", os.O_RDONLY)
        except OSError:
            raise self._gone() from None

    def __enter__(self) -> Self:
        """Return itself: the process runs already."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self.close()

    def close(self) -> None:
        """End the process and all that it started; idempotent."""
        if self._closed:
            return
        self._closed = True
        for descriptor in (self._in, self._out, self._stat, self._schedstat, self._own):
            os.close(descriptor)
        self._jail.close()

    # --- what the kernel says of it ---

    def cpu_s(self) -> float:
        """Return the CPU time of the process and all its threads, dead ones included."""
        try:
            return time.clock_gettime(self._clock)
        except OSError:
            raise self._gone() from None

    def others_cpu_s(self) -> float:
        """Return the CPU time of what the process started, as other processes, so far.

        Without a control group: of those that live, and of those that somebody waited for.
        """
        others_s = self._jail.cpu_seconds() - self.cpu_s()
        if self._cell.sandbox.mode is SandboxMode.STRICT:
            return others_s
        try:
            fields = _stat_fields(os.pread(self._stat, 512, 0))
            init = _stat_fields(Path(f"/proc/{int(fields[1])}/stat").read_bytes())
        except (OSError, IndexError):
            raise self._gone() from None
        return others_s + _reaped_s(fields) + _reaped_s(init)

    def threads(self) -> int:
        """Return how many threads the process has now."""
        try:
            return sum(1 for _ in Path(f"/proc/{self._jail.pid}/task").iterdir())
        except OSError:
            raise self._gone() from None

    def processes(self) -> int:
        """Return how many processes run in the sandbox now."""
        return len(self._jail.pids())

    def cpus(self) -> frozenset[int]:
        """Return the CPUs that the kernel lets the process run on, whatever it says of itself."""
        try:
            return frozenset(os.sched_getaffinity(self._jail.pid))
        except OSError:
            raise self._gone() from None

    def resident_bytes(self) -> int:
        """Return how much memory of the process is in use now."""
        try:
            return int(Path(f"/proc/{self._jail.pid}/statm").read_bytes().split()[1]) * _PAGE
        except (OSError, IndexError):
            raise self._gone() from None

    def births(self) -> bytes:
        """Return what differs once any process or thread of this machine has been started.

        Children that nobody waits for leave no other trace. A control group counts them all, so
        nothing is read where there is one, or where the kernel does not tell.
        """
        if self._cell.sandbox.mode is SandboxMode.STRICT:
            return b""
        try:
            return _LAST_PID.read_bytes()
        except OSError:
            return b""

    def waited_s(self) -> float:
        """Return how long the process was ready to run and did not: others had its CPU."""
        try:
            return _waited_s(self._schedstat)
        except (OSError, IndexError):
            raise self._gone() from None

    # --- commands ---

    def load(self, preload: Sequence[str] = ()) -> Loaded:
        """Load the function. Raises Ended with does_not_load, or with how the process ended."""
        self._send(b"L", json.dumps(self.spec.order(preload)).encode())
        said = self._json()
        if not isinstance(said, dict) or "error" in said:
            error = said.get("error") if isinstance(said, dict) else "no answer"
            raise Ended(self.role, "does_not_load", str(error)[:500])
        try:
            return Loaded(
                dict(said["attributes"]),
                frozenset(str(name)[:200] for name in said["changes"]),
                {str(k)[:40]: str(v)[:80] for k, v in dict(said["versions"]).items()},
                tuple((str(n)[:200], str(k)[:40], bool(d)) for n, k, d in said["parameters"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise self._broken(f"it said nonsense of what it loaded: {error}") from error

    def put(
        self,
        body: bytes,
        how: How = "fresh",
        poison: tuple[Sequence[int], int] | None = None,
        by_position: Sequence[str] = (),
        left_out: Sequence[str] = (),
    ) -> None:
        """Hand arguments over; `poison` is (sizes in bytes, byte) of memory to spoil before.

        Until the next time, calls are given the arguments `by_position` in that order, all others
        but those `left_out` by name.
        """
        options: dict[str, object] = {"how": how}
        if poison:
            options |= {"poison": list(poison[0]), "byte": poison[1]}
        if by_position:
            options["by_position"] = list(by_position)
        if left_out:
            options["left_out"] = list(left_out)
        head = json.dumps(options).encode()
        self._most_put = max(self._most_put, len(body))
        self._send(b"P", codec.HEADER.pack(len(head)) + head, body)
        self._receive(b"R")

    def call(self, *, no_op: bool = False) -> Answer:
        """Call the function on the arguments it has, timed from go to done; then fetch its outputs.

        Done is said before they are copied out: that is the caller's work and none of the call's.
        `no_op` calls nothing, and fetches the last outputs again. Raises Ended.
        """
        cpu_s, waited_s = self.rest()
        own_s = _waited_s(self._own)
        started = time.perf_counter()
        os.write(self._out, _NO_OP if no_op else _GO)
        self._receive(b"D", spin=self._cell.spin, more_s=self.first_call_s)
        wall_s = time.perf_counter() - started
        own_s = _waited_s(self._own) - own_s
        self.first_call_s = 0.0
        after = self.rest()
        fetched = time.perf_counter()
        own_after_s = _waited_s(self._own)
        self._send(b"F")
        code, body = self._receive(b"V", b"X", b"U")
        fetch_s = time.perf_counter() - fetched - (_waited_s(self._own) - own_after_s)
        end = self.rest()
        fetch_cpu_s = end[0] - after[0]
        if code == b"U":
            reason = body.decode("utf-8", "replace")[:500]
            raise Ended(self.role, "dtype_differs", f"it returned what cannot travel: {reason}")
        raised = body.decode("utf-8", "replace")[:500] if code == b"X" else None
        return Answer(
            wall_s,
            after[0] - cpu_s,
            after[1] - waited_s + own_s,
            b"" if code == b"X" else body,
            raised,
            max(fetch_s - (end[1] - after[1]), fetch_cpu_s),
            fetch_cpu_s,
        )

    def rest(self) -> tuple[float, float]:
        """Return CPU and waiting time once the process sleeps: until then the kernel's are stale."""
        until = time.perf_counter() + REST_S
        while os.pread(self._stat, 512, 0).rpartition(b")")[2][1:2] == b"R":
            if time.perf_counter() > until:
                break
        return self.cpu_s(), self.waited_s()

    def draw(
        self, seed: int, batch: int, state: Sequence[str], parts: Sequence[bool]
    ) -> tuple[bytes, str | None]:
        """Draw arguments; `parts` chooses those that are no state (False), that are (True).

        Returns the body, or an empty one with what the maker raised.
        """
        request = {"seed": seed, "batch": batch, "state": list(state), "parts": list(parts)}
        return self._asked(b"M", json.dumps(request).encode())

    def score(self, inputs: Tree, outputs: Tree) -> float:
        """Return the metric of one call. Raises Ended where it raises or is no number."""
        body, raised = self._asked(b"S", codec.encode({"inputs": inputs, "outputs": outputs}))
        if raised is not None:
            raise Ended(self.role, "raises", raised)
        return float(codec.decode(body).array[()])

    def arguments(self) -> bytes:
        """Return the arguments as they are now, as a body: of one putting, or beside the state's."""
        return self._asked(b"I", room=2 * self._most_put)[0]

    def earlier(self) -> bytes:
        """Return what the call before the last returned, read again now, as a body."""
        return self._asked(b"E", room=self._most_got)[0]

    def keep(self) -> None:
        """Have the process hold its last result until it ends."""
        self._send(b"K")

    def kept(self, index: int) -> bytes:
        """Return one of the results that it holds, read again now, as a body."""
        return self._asked(b"H", codec.HEADER.pack(index), room=self._most_got)[0]

    def write_results(self) -> bytes:
        """Have the process write into its last result; what can be written, and the result then."""
        return self._asked(b"W", b"true", room=self._most_got)[0]

    def restore_results(self) -> None:
        """Have it put back what was there."""
        self._send(b"W", b"false")
        self._receive(b"R")

    def aliases(self) -> frozenset[tuple[str, str]]:
        """Return the pairs (output, argument) that share memory."""
        self._send(b"A")
        said = self._json()
        if not isinstance(said, list) or not all(isinstance(x, list) and len(x) == 2 for x in said):
            raise self._broken("it said nonsense of shared memory")
        return frozenset((str(one)[:80], str(other)[:80]) for one, other in said)

    def changes(self) -> frozenset[str]:
        """Return the names of global state that differs from before the function was loaded."""
        self._send(b"C")
        said = self._json()
        if not isinstance(said, list):
            raise self._broken("it said nonsense of its state")
        return frozenset(str(name)[:200] for name in said)

    # --- frames ---

    def _asked(self, code: bytes, body: bytes = b"", room: int = 0) -> tuple[bytes, str | None]:
        """Return the value that answers a command, or what was raised.

        What has travelled once, `room` bytes of it, may do so again, whatever the limit is by now.
        """
        self._send(code, body)
        answer, said = self._receive(b"V", b"X", room=room + SMALL_FRAME)
        if answer == b"X":
            return b"", said.decode("utf-8", "replace")[:500]
        return said, None

    def _json(self) -> object:
        """Return the next answer, which is JSON."""
        _, body = self._receive(b"J")
        try:
            said: object = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise self._broken(f"malformed JSON: {error}") from error
        return said

    def _send(self, code: bytes, *blobs: bytes) -> None:
        """Write one command; the process reads it whole before it answers."""
        deadline = time.monotonic() + self.time_limit_s
        frame = codec.FRAME.pack(code, sum(map(len, blobs)))
        for blob in (frame, *blobs):
            rest = memoryview(blob)
            while rest:
                try:
                    rest = rest[os.write(self._out, rest[:CHUNK]) :]
                except BlockingIOError:
                    self._wait(self._out, select.POLLOUT, deadline)
                except BrokenPipeError:
                    raise self._gone() from None

    def _receive(
        self, *codes: bytes, spin: bool = False, more_s: float = 0.0, room: int = 0
    ) -> tuple[bytes, bytes]:
        """Return the next answer, which must have one of these codes; it may take `more_s`.

        It may be larger than the limit where there is `room` for it.
        """
        deadline = time.monotonic() + self.time_limit_s + more_s
        code, size = codec.FRAME.unpack(self._read(codec.FRAME.size, deadline, spin=spin))
        if code not in codes:
            raise self._broken(f"it answered {code!r} where {codes} can follow")
        if size > (max(self.frame_limit, room) if code == b"V" else SMALL_FRAME):
            raise Ended(self.role, "output_limit", f"it announced an answer of {size} bytes")
        self._most_got = max(self._most_got, size)
        return code, self._read(size, deadline)

    def _read(self, size: int, deadline: float, *, spin: bool = False) -> bytes:
        """Read exactly `size` bytes."""
        read = bytearray(size)
        view, got = memoryview(read), 0
        while got < size:
            count = self._some(view[got : got + CHUNK], deadline, spin=spin)
            if not count:
                raise self._gone()
            got += count
        return bytes(read)

    def _some(self, view: memoryview, deadline: float, *, spin: bool) -> int:
        """Read what there is; spins at first where a sleeping reader would be woken too late."""
        until = time.perf_counter() + SPIN_S if spin else 0.0
        while True:
            try:
                return os.readv(self._in, [view])
            except BlockingIOError:
                if time.perf_counter() > until:
                    self._wait(self._in, select.POLLIN, deadline)

    def _wait(self, descriptor: int, event: int, deadline: float) -> None:
        """Wait until a pipe is ready or broken; raises Ended when the time is up."""
        poller = select.poll()
        poller.register(descriptor, event)
        if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise self._hangs()

    def _hangs(self) -> Ended:
        """End a process whose time is up; a limit that it met meanwhile is the better reason."""
        self._jail.kill()
        reason = "hangs"
        with suppress(ToolFailed):
            reason = REASONS[self._jail.ending()]
        reason = "hangs" if reason == "crashed" else reason
        return Ended(self.role, reason, f"no answer in {self.time_limit_s:.3g} s")

    def _broken(self, what: str) -> Ended:
        """Return the end of a process that broke the protocol."""
        self._jail.kill()
        return Ended(self.role, "crashed", what)

    def _gone(self) -> Ended:
        """Return how the process ended."""
        with suppress(FvecError):
            self._jail.wait(_DYING_S)
        try:
            reason = REASONS[self._jail.ending()]
        except ToolFailed as error:
            return Ended(self.role, "crashed", error.message)
        code = [f"exit code {self._jail.code}"] if reason == "crashed" else []
        return Ended(self.role, reason, " | ".join([*code, *tail(self.log, 3)]))

    def refused_something(self) -> Ended | None:
        """Return the end of a process that just met a limit, None where none comes."""
        try:
            self._jail.process.wait(LIMIT_TICK_S)
        except subprocess.TimeoutExpired:
            return None
        return self._gone()


def _stat_fields(stat: bytes) -> list[bytes]:
    """Return the fields of a process' stat from its state on: the name before may hold anything."""
    return stat.rpartition(b")")[2].split()


def _reaped_s(fields: Sequence[bytes]) -> float:
    """Return the CPU time of the children that a process waited for (cutime and cstime, proc(5))."""
    return (int(fields[13]) + int(fields[14])) / _TICKS


def _waited_s(schedstat: int) -> float:
    """Return how long a thread was ready to run and did not, so far."""
    return int(os.pread(schedstat, 128, 0).split()[1]) / 1e9


_GO, _NO_OP = codec.FRAME.pack(b"G", 0), codec.FRAME.pack(b"N", 0)
_DYING_S = 2.0
_LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
