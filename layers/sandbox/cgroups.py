"""Control groups, version 1 or 2: limits on memory and processes that bind root too.

Version 2: https://docs.kernel.org/admin-guide/cgroup-v2.html; version 1:
https://docs.kernel.org/admin-guide/cgroup-v1/.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from layers.errors import Missing, ToolFailed
from layers.sandbox import owners
from layers.sandbox.base import Limits

HINT = (
    "run as root, or in a delegated group (systemd-run --user --scope -p Delegate=yes fvec ...), "
    "or name the weaker mode in .github/fvec.yml: 'sandbox: {mode: no-cgroup}'"
)
NEEDED = ("memory", "pids")
_V1 = (*NEEDED, "cpuacct", "freezer")
CPUSET = "cpuset"  # taken where it is there: pinning that the pinned cannot undo
_OWN = 3  # processes beside the program's: bubblewrap's two, and what relays a server's log
_PROCS = "cgroup.procs"
_EMPTY_S = 10.0
_STILL_S = 10.0  # far longer than any machine needs to stop a group's threads
_POLL_S = 0.002


@dataclass(frozen=True, slots=True)
class Memory:
    """What a group holds of memory, in bytes."""

    held: int  # cannot be dropped: its processes', what lies in /tmp and /dev/shm
    peak: int | None  # the most that it ever held, files that it read included; None: not told


@dataclass(frozen=True, slots=True)
class Waits:
    """How much a group has waited for memory since it was made."""

    major_faults: int  # for a page that had to be read
    stalled_s: float | None  # seconds in which some of it waited; None: not told


@dataclass(frozen=True, slots=True)
class Group:
    """The control group of one confined program; a context manager that removes it.

    `folders`: controller to its folder; the same folder for all of them under version 2.
    """

    folders: dict[str, Path]
    version: int

    def __enter__(self) -> Self:
        """Return itself: the group is there already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill what is left in it and remove it."""
        self.kill()
        self.remove()

    @property
    def attach_paths(self) -> tuple[Path, ...]:
        """Files that a process id is written to in order to bring the process into the group."""
        return tuple(folder / _PROCS for folder in self.places)

    @property
    def places(self) -> tuple[Path, ...]:
        """The group's folders, each once."""
        return tuple(dict.fromkeys(self.folders.values()))

    @property
    def counters(self) -> dict[str, tuple[Path, str]]:
        """Ending to the file and key of the number that says whether a limit caused it."""
        memory, pids = self.folders["memory"], self.folders["pids"]
        kills = "memory.events" if self.version != 1 else "memory.oom_control"
        return {
            "memory_limit": (memory / kills, "oom_kill"),
            "process_limit": (pids / "pids.events", "max"),
        }

    def cpu_seconds(self) -> float:
        """Return CPU seconds of all that ran in the group, ended processes included.

        A thread that runs right now is counted up to the scheduler's last tick (1 to 10 ms ago).
        """
        if self.version == 1:
            return int((self.folders["cpuacct"] / "cpuacct.usage").read_text()) / 1e9
        return _counter(self.folders["pids"] / "cpu.stat", "usage_usec") / 1e6

    def pids(self) -> tuple[int, ...]:
        """Return the process ids in the group, as this process counts them, ascending."""
        found: set[int] = set()
        for path in self.attach_paths:
            with suppress(FileNotFoundError):
                found.update(map(int, path.read_text().split()))
        return tuple(sorted(found - {0}))  # 0 is a process that cannot be named from here

    @property
    def freezer(self) -> tuple[Path, str, str]:
        """The file that holds the group still, with what is written to do so and to let it go on."""
        if self.version == 1:
            return self.folders["freezer"] / "freezer.state", "FROZEN", "THAWED"
        return self.folders["pids"] / "cgroup.freeze", "1", "0"

    @property
    def freezes(self) -> bool:
        """Whether this machine can hold the group still."""
        return self.freezer[0].exists()

    def freeze(self) -> None:
        """Hold all processes of the group still; returns once none of them runs. Idempotent.

        Raises ToolFailed, with the group let go, when some still run after 10 s.
        """
        file, frozen, _ = self.freezer
        deadline = time.monotonic() + _STILL_S
        try:
            file.write_text(frozen)
            while not self._is_still():
                if time.monotonic() > deadline:
                    self.thaw()
                    raise ToolFailed(f"processes {self.pids()} of a sandbox cannot be held still")
                time.sleep(_POLL_S)
        except OSError as error:
            raise ToolFailed(f"a control group cannot be held still: {error}") from error

    def thaw(self) -> None:
        """Let the group go on. Idempotent; gone already is fine."""
        file, _, thawed = self.freezer
        _write_if_there(file, thawed)

    def _is_still(self) -> bool:
        if self.version == 1:
            return self.freezer[0].read_text().strip() == "FROZEN"
        return _counter(self.folders["pids"] / "cgroup.events", "frozen") == 1

    def memory(self) -> Memory:
        """Return what the group holds now, and the most that it held."""
        folder = self.folders["memory"]
        own, most = "anon", "memory.peak"
        if self.version == 1:
            own, most = ("rss", "memory.max_usage_in_bytes")
        held = sum(_counter(folder / "memory.stat", key) for key in (own, "shmem"))
        try:
            return Memory(held, int((folder / most).read_text()))
        except OSError:  # version 2 tells it since Linux 5.19
            return Memory(held, None)

    def waits(self) -> Waits:
        """Return how much the group has waited for memory so far."""
        folder = self.folders["memory"]
        faults = _counter(folder / "memory.stat", "pgmajfault")
        try:  # version 2 alone has it, and not every kernel
            text = (folder / "memory.pressure").read_text()
        except OSError:
            return Waits(faults, None)
        found = re.search(r"^some .*total=(\d+)", text, re.MULTILINE)
        return Waits(faults, int(found[1]) / 1e6 if found else None)

    def memory_killed(self) -> bool:
        """Say whether the kernel killed a process of the group for its memory."""
        return _counter(*self.counters["memory_limit"]) > 0

    def processes_refused(self) -> bool:
        """Say whether a process or thread more than allowed was asked for."""
        return _counter(*self.counters["process_limit"]) > 0

    def limit(self, limits: Limits) -> None:
        """Write the limits."""
        memory, pids = self.folders["memory"], self.folders["pids"]
        (pids / "pids.max").write_text(str(limits.processes + _OWN))
        size = str(limits.memory_bytes)
        if self.version == 1:
            (memory / "memory.limit_in_bytes").write_text(size)
            _write_if_there(memory / "memory.memsw.limit_in_bytes", size)  # else it swaps
        else:
            (memory / "memory.max").write_text(size)
            _write_if_there(memory / "memory.swap.max", "0")
            _write_if_there(memory / "memory.oom.group", "1")

    def pin(self, cpus: Sequence[int]) -> None:
        """Hold all of the group to these CPUs, whatever affinity its processes ask for."""
        folder = self.folders[CPUSET]
        if self.version == 1:  # nothing is inherited, and nobody can enter before both are set
            mems = (folder.parent / "cpuset.mems").read_text()
            (folder / "cpuset.mems").write_text(mems)
        (folder / "cpuset.cpus").write_text(",".join(map(str, sorted(cpus))))

    def kill(self) -> None:
        """Kill all processes of the group and wait until none is left; idempotent.

        Raises ToolFailed when some are still there after 10 s.
        """
        deadline = time.monotonic() + _EMPTY_S
        while self.pids():
            self._kill_once()
            if time.monotonic() > deadline:
                raise ToolFailed(f"processes {self.pids()} of a sandbox do not end")
            time.sleep(_POLL_S)

    def remove(self) -> None:
        """Remove the group, which must be empty; gone already is fine."""
        deadline = time.monotonic() + _EMPTY_S
        for folder in self.places:
            while folder.is_dir():
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    break
                except OSError as error:  # a process that was killed has not gone completely
                    if time.monotonic() > deadline:
                        raise ToolFailed(f"a control group cannot be removed: {error}") from error
                    time.sleep(_POLL_S)

    def _kill_once(self) -> None:
        """Send SIGKILL to all of the group; frozen, what forks cannot outrun it."""
        whole = self.places[0] / "cgroup.kill"
        if whole.exists():
            whole.write_text("1")
            return
        freezer, frozen, thawed = self.freezer
        _write_if_there(freezer, frozen)
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _write_if_there(freezer, thawed)


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where groups can be made; `parents`: controller to the folder that takes them."""

    parents: dict[str, Path]
    version: int

    def group(self, limits: Limits, cpus: Sequence[int] = ()) -> Group:
        """Make a group with the limits in force, held to `cpus` where this machine can.

        Raises ToolFailed when the kernel refuses.
        """
        name = owners.new_name()
        parents = {key: path for key, path in self.parents.items() if cpus or key != CPUSET}
        group = Group({key: path / name for key, path in parents.items()}, self.version)
        try:
            for folder in group.places:
                folder.mkdir()
            group.limit(limits)
            if CPUSET in group.folders:
                group.pin(cpus)
        except OSError as error:
            group.remove()
            raise ToolFailed(f"a control group cannot be made: {error}") from error
        return group

    def remove_leftovers(self) -> None:
        """Kill and remove groups whose owner, a process of ours, is no longer there."""
        parents = set(self.parents.values())
        names = {folder.name for parent in parents for folder in parent.glob("fvec-*")}
        for name in filter(owners.is_orphan, names):
            with Group({key: path / name for key, path in self.parents.items()}, self.version):
                pass


def find() -> Hierarchy:
    """Return where this process can make groups. Raises Missing when it cannot anywhere."""
    mounts, own = _mounts(), _own_groups()
    unified = mounts.get("")
    if unified and set(NEEDED) <= _controllers(unified[0]):
        for parent in _upwards(unified, own.get("", "/")):
            if _takes_groups(parent):
                pinning = [CPUSET] if CPUSET in _passed_on(parent) else []
                return Hierarchy(dict.fromkeys([*NEEDED, *pinning], parent), version=2)
        raise Missing("no control group (version 2) that this process may divide", hint=HINT)
    absent = [name for name in _V1 if name not in mounts]
    if absent:
        raise Missing(f"the control group controller {absent[0]!r} is not mounted", hint=HINT)
    parents = {name: next(_upwards(mounts[name], own.get(name, "/"))) for name in _V1}
    closed = [str(parent) for parent in parents.values() if not os.access(parent, os.W_OK)]
    if closed:
        raise Missing(f"the control group {closed[0]} cannot be written to", hint=HINT)
    if CPUSET in mounts:
        above = next(_upwards(mounts[CPUSET], own.get(CPUSET, "/")))
        if os.access(above, os.W_OK) and _holds_cpus(above):
            parents[CPUSET] = above
    return Hierarchy(parents, version=1)


def _mounts() -> dict[str, tuple[Path, str]]:
    """Return controller ("" for version 2) to its mount point and the group mounted there."""
    found = {}
    for line in Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines():
        head, _, tail = line.partition(" - ")
        kind, _, options = tail.split(" ", 2)
        root, point = (_unescaped(text) for text in head.split(" ")[3:5])
        if kind == "cgroup2":
            found[""] = (Path(point), root)
        elif kind == "cgroup":
            found.update(dict.fromkeys(options.split(","), (Path(point), root)))
    return found


def _unescaped(text: str) -> str:
    """Undo the octal escapes of mountinfo."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _own_groups() -> dict[str, str]:
    """Return controller ("" for version 2) to the group that this process is in."""
    lines = Path("/proc/self/cgroup").read_text("utf-8", "replace").splitlines()
    fields = [line.split(":", 2) for line in lines]
    return {name: group for _, names, group in fields for name in names.split(",")}


def _upwards(mount: tuple[Path, str], group: str) -> Iterator[Path]:
    """Yield the folder of a group and those above it, up to the mount point."""
    point, root = mount
    inside = Path("/") / Path(group).relative_to(root) if Path(group).is_relative_to(root) else "/"
    for step in (Path(inside), *Path(inside).parents):
        folder = point / str(step).lstrip("/")
        if folder.is_dir():
            yield folder


def _controllers(folder: Path) -> set[str]:
    try:
        return set((folder / "cgroup.controllers").read_text().split())
    except OSError:
        return set()


def _holds_cpus(folder: Path) -> bool:
    """Say whether a group (version 1) has CPUs and memory nodes to pass on."""
    try:
        return all((folder / f"cpuset.{name}").read_text().strip() for name in ("cpus", "mems"))
    except OSError:
        return False


def _passed_on(parent: Path) -> set[str]:
    """Return the controllers (version 2) that groups in `parent` come with."""
    with suppress(OSError):  # not every machine lets it be divided
        (parent / "cgroup.subtree_control").write_text("+cpuset")
    try:
        return set((parent / "cgroup.subtree_control").read_text().split())
    except OSError:
        return set()


def _takes_groups(parent: Path) -> bool:
    """Say whether groups made in `parent` (version 2) come with the controllers we need."""
    with suppress(OSError):  # a group that holds processes itself refuses; one above it may not
        (parent / "cgroup.subtree_control").write_text("+memory +pids")
    probe = parent / owners.new_name()
    try:
        probe.mkdir()
    except OSError:
        return False
    try:
        return set(NEEDED) <= _controllers(probe)
    finally:
        probe.rmdir()


def _counter(path: Path, key: str) -> int:
    """Return the number behind `key` in a file of `key number` lines; 0 when it is not there."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.split()[0] == key), 0)


def _write_if_there(path: Path, text: str) -> None:
    """Write to a file of the kernel's that not every machine has."""
    if path.exists():
        with suppress(OSError):
            path.write_text(text)
