"""Program beside each confined program: starts it inside its limits and ends it with its owner.

Run by path with `-I -S`: standard library only. It reads one JSON line (see `jail.Order`) from the
socket whose number is its argument, and answers in JSON lines:

    {"init": PID}   the first process of the sandbox's own process ids
    {"pid": PID}    the program, as this machine counts it
    {"end": {"code": CODE or null, "reason": REASON or null, "error": TEXT or null}}

It ends the program when the owner says `stop`, when the socket closes because the owner is gone
(then it also removes the control group), or when a limit is reached that the kernel only refuses.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

TICK_S = 0.25
CHUNK = 1 << 20
END_S = 5.0
STARTING_MS = 1  # how often the program's process id is looked for until it is there
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


class Launcher:
    """One confined program, from its start to its end."""

    def __init__(self, control: socket.socket, order: dict[str, Any]) -> None:
        """Prepare; `order` is that of the owner."""
        self._control = control
        self._order = order
        self._status, self._status_write = os.pipe()
        self._text = b""  # of what bubblewrap says
        self._sinks: dict[int, int] = {}  # pipe to where its bytes go
        self._rest = order["output_bytes"]
        self._init: int | None = None  # pidfd of the sandbox's first process
        self._pid_known = False
        self._code: int | None = None
        self._reason: str | None = None
        self._orphaned = False
        self._used_bytes = disk_bytes(order["writable"])
        self._free_bytes = free_bytes(order["writable"])

    def run(self) -> None:
        """Start the program, watch it, end it."""
        if not self._order["bubblewrap"]:
            prctl(PR_SET_CHILD_SUBREAPER, 1)  # what the program leaves behind becomes ours to end
        try:
            self._child = self._started()
        except (OSError, subprocess.SubprocessError) as error:
            self._say({"end": {"code": None, "reason": None, "error": str(error)}})
            return
        self._child_fd = os.pidfd_open(self._child.pid)
        try:
            self._watch()
        finally:
            self._end()
        if self._orphaned:
            self._remove_group()
        else:
            end = {"code": self._code, "reason": self._reason, "error": None}
            self._say({"end": end})

    def _started(self) -> subprocess.Popen[bytes]:
        """Start the program; its outputs that are bounded are pipes to this process."""
        argv, passed = list(self._order["argv"]), list[int]()
        if self._order["bubblewrap"]:
            argv[1:1] = ["--json-status-fd", str(self._status_write)]
            passed = [self._status_write]
            if self._order["barred"]:
                passed.append(in_memory(bytes.fromhex(self._order["barred"])))
                argv[1:1] = ["--seccomp", str(passed[-1])]
        outputs = self._pipes()
        child = subprocess.Popen(
            argv,
            stdout=outputs.get(1),
            stderr=outputs.get(2),
            cwd=None if passed else self._order["cwd"],
            env={} if passed else self._order["env"],
            pass_fds=passed,
            start_new_session=True,
            preexec_fn=self._confine,  # safe: this process has one thread
        )
        for descriptor in {self._status_write, *passed}:
            os.close(descriptor)
        os.set_blocking(self._status, False)
        for write in set(outputs.values()):
            os.close(write)
        if not passed:
            self._pid_known = True
            self._say({"init": os.getpid()})
            self._say({"pid": child.pid})
        empty = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):  # the program's ends of the owner's pipes are not ours to hold
            os.dup2(empty, standard)
        return child

    def _pipes(self) -> dict[int, int]:
        """Return a pipe's end for each output that is bounded; outputs to one file share one."""
        outputs = {}
        for descriptors in self._order["capped"]:
            read, write = os.pipe()
            os.set_blocking(read, False)
            self._sinks[read] = os.dup(descriptors[0])
            outputs.update(dict.fromkeys(descriptors, write))
        return outputs

    def _confine(self) -> None:
        """Enter the control group and the limits, in the process that becomes the program."""
        for path in self._order["attach"]:
            attach(path, os.getpid())
        for name, value in self._order["rlimits"].items():
            kind = getattr(resource, name)
            hard = resource.getrlimit(kind)[1]
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (bound, bound))
        if self._order["cpus"]:
            os.sched_setaffinity(0, self._order["cpus"])
        if not self._order["bubblewrap"]:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def _watch(self) -> None:
        """Relay output and keep the limits until the program has ended or has to."""
        poller = select.poll()
        for descriptor in (self._control.fileno(), self._child_fd, self._status, *self._sinks):
            poller.register(descriptor, select.POLLIN)
        next_tick = time.monotonic() + TICK_S
        while self._reason is None:
            starting = self._init is not None and not self._pid_known
            ready = {fd for fd, _ in poller.poll(STARTING_MS if starting else self._tick_ms())}
            if self._status in ready and not self._hear():
                poller.unregister(self._status)
            if starting:
                self._find_program()
            for source in ready & self._sinks.keys():
                if self._relay(source) == b"":
                    poller.unregister(source)
            if self._child_fd in ready:
                return
            if self._control.fileno() in ready:
                self._obey()
            if time.monotonic() > next_tick:
                next_tick = time.monotonic() + TICK_S
                self._reason = self._reason or self._limit_reached()

    def _tick_ms(self) -> float | None:
        watched = self._order["counters"] or self._order["writable"]
        return TICK_S * 1000 if watched else None

    def _hear(self) -> bool:
        """Read what bubblewrap says of its processes; False at its end."""
        try:
            read = os.read(self._status, CHUNK)
        except BlockingIOError:
            return False
        *lines, self._text = (self._text + read).split(b"\n")
        for line in filter(None, lines):
            said = json.loads(line)
            if "child-pid" in said:
                self._init_pid = int(said["child-pid"])
                with suppress(ProcessLookupError):
                    self._init = os.pidfd_open(self._init_pid)
                self._say({"init": self._init_pid})
            self._code = said.get("exit-code", self._code)
        return read != b""

    def _find_program(self) -> None:
        """Say the process id of the program: the first child of the sandbox's first process."""
        with suppress(OSError, IndexError):
            path = f"/proc/{self._init_pid}/task/{self._init_pid}/children"
            pid = int(read_file(path).split()[0])
            # bubblewrap asks for its death with its parent after this fork; then it waits. Before
            # that the program must not be called started: nothing would end it with a killed us.
            if read_file(f"/proc/{self._init_pid}/stat").rpartition(b")")[2].split()[0] != b"S":
                return
            self._pid_known = True
            self._say({"pid": pid})

    def _obey(self) -> None:
        self._orphaned = self._control.recv(16) == b""
        self._reason = "stopped"

    def _relay(self, source: int) -> bytes | None:
        """Pass on what a pipe holds, up to the limit; b"" at its end, None when it is empty."""
        try:
            data = os.read(source, CHUNK)
        except BlockingIOError:
            return None
        rest = memoryview(data)[: self._rest]
        if len(data) > self._rest:
            self._reason = self._reason or "output_limit"
        self._rest -= len(rest)
        while rest:
            try:
                rest = rest[os.write(self._sinks[source], rest) :]
            except OSError:  # the disk is full, or nobody reads any more: the program goes on
                break
        return data

    def _limit_reached(self) -> str | None:
        """Return the limit that was reached and that does not end the program by itself."""
        for reason, (path, key) in self._order["counters"].items():
            if counter(path, key):
                return str(reason)
        return "output_limit" if self._writes_too_much() else None

    def _writes_too_much(self) -> bool:
        """Say whether the writable folders grew beyond the limit; cheap while the disk does not."""
        limit: int = self._order["disk_bytes"]
        if not self._order["writable"]:
            return False
        if self._free_bytes - free_bytes(self._order["writable"]) <= limit:
            return False
        return disk_bytes(self._order["writable"]) - self._used_bytes > limit

    def _end(self) -> None:
        """End all processes, wait for them, pass on the last output."""
        if self._reason is not None and self._order["bubblewrap"] and self._init is None:
            select.select([self._status], [], [], END_S)  # it is being set up
            self._hear()
        if self._reason is not None and self._init is not None:
            # The kernel ends what runs in a process id namespace before its first process is gone.
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._init, signal.SIGKILL)
            select.select([self._child_fd], [], [], END_S)
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._child_fd, signal.SIGKILL)
        status = self._child.wait()
        if self._init is not None:
            select.select([self._init], [], [], END_S)
        if not self._order["bubblewrap"]:
            self._code = status
            end_descendants()
        while self._hear():
            pass
        for source in self._sinks:
            while self._rest and self._relay(source):
                pass
        if self._reason == "output_limit":
            self._note()

    def _note(self) -> None:
        note = f"\n[ended: it wrote more than {self._order['output_bytes']} bytes here]\n"
        if self._rest == 0:
            for sink in self._sinks.values():
                with suppress(OSError):
                    os.write(sink, note.encode())

    def _remove_group(self) -> None:
        """Remove the control group of an owner that is gone."""
        from pathlib import Path  # 4 ms, and needed only here

        for path in self._order["group"]:
            deadline = time.monotonic() + END_S
            while time.monotonic() < deadline:
                try:
                    Path(path).rmdir()
                except FileNotFoundError:
                    break
                except OSError:  # what was killed has not gone completely
                    time.sleep(0.01)

    def _say(self, message: dict[str, Any]) -> None:
        with suppress(OSError):
            self._control.sendall(json.dumps(message).encode() + b"\n")


def in_memory(data: bytes) -> int:
    """Return a descriptor of a file that holds `data` and has no name, to be read from its start."""
    descriptor = os.memfd_create("fvec")
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process (`prctl(2)`)."""
    import ctypes  # bubblewrap does both itself: the usual start does without this import

    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def attach(path: str, pid: int) -> None:
    """Bring a process into a control group."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, str(pid).encode())
    finally:
        os.close(descriptor)


def read_file(path: str) -> bytes:
    """Return a small file of the kernel's; pathlib takes longer to import than the program starts."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return b"".join(iter(lambda: os.read(descriptor, CHUNK), b""))
    finally:
        os.close(descriptor)


def counter(path: str, key: str) -> int:
    """Return the number behind `key` in a file of `key number` lines; 0 when it is not there."""
    try:
        words = read_file(path).split()
    except OSError:
        return 0
    return int(words[words.index(key.encode()) + 1]) if key.encode() in words else 0


def free_bytes(folders: list[str]) -> int:
    """Return the free bytes of the file systems that hold the folders, summed over folders."""
    views = [os.statvfs(folder) for folder in folders]
    return sum(view.f_bfree * view.f_frsize for view in views)


def disk_bytes(folders: list[str]) -> int:
    """Return the bytes that all below the folders takes on disk; links are not followed."""
    total, rest = 0, list(folders)
    while rest:
        try:
            with os.scandir(rest.pop()) as entries:
                for entry in entries:
                    with suppress(OSError):
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
                        if entry.is_dir(follow_symlinks=False):
                            rest.append(entry.path)
        except OSError:  # removed meanwhile, or a single file
            continue
    return total


def end_descendants() -> None:
    """Kill and reap all that descends from this process."""
    deadline = time.monotonic() + END_S
    while time.monotonic() < deadline:
        for pid in descendants(os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def descendants(pid: int) -> list[int]:
    """Return the process ids below a process, parents before their children."""
    found = [pid]
    for parent in found:
        with suppress(OSError), os.scandir(f"/proc/{parent}/task") as threads:
            for thread in threads:
                found += map(int, read_file(f"{thread.path}/children").split())
    return found[1:]


def main() -> None:
    """Read the order and carry it out."""
    control = socket.socket(fileno=int(sys.argv[1]))
    received = b""
    while not received.endswith(b"\n"):
        read = control.recv(CHUNK)
        if not read:
            return  # the owner was gone before it said what to do
        received += read
    fcntl.fcntl(control, fcntl.F_SETFD, fcntl.FD_CLOEXEC)  # the program must not speak for us
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # the owner says when; the program gets defaults
    Launcher(control, json.loads(received)).run()
    os._exit(0)  # the owner waits for our end: skip the interpreter's own cleaning up


if __name__ == "__main__":
    main()
