"""The sandbox of one run: opened once from the manifest, then starts confined programs."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import assert_never

from layers.errors import Missing, ToolFailed
from layers.manifest import SandboxMode, SandboxSection
from layers.sandbox import bubblewrap, cgroups, syscalls
from layers.sandbox.base import GIB, MIB, Confinement, Ending, Limits
from layers.sandbox.bubblewrap import Bubblewrap
from layers.sandbox.cgroups import Group, Hierarchy
from layers.sandbox.jail import Jail, Order, Stream

_PROBE_S = 20.0
_KEPT_BYTES = GIB  # of what is available: ours, the load generator's, the page cache's
_LEAST_BYTES = GIB // 2  # that a program gets, however little there is
# A timer of a program fires on, and costs others CPU, while the program itself is held still; each
# needs a queued signal. Nothing that serves uses more than a few.
_QUEUED_SIGNALS = 64


class LimitReached(ToolFailed):
    """A limit ended a confined program; `reason` says which."""

    def __init__(self, message: str, reason: Ending) -> None:
        """Keep the reason beside the message."""
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How programs are confined here; see `open`. Safe to use from several threads."""

    mode: SandboxMode
    limits: Limits  # those that the manifest names, for whoever makes a Confinement
    _bubblewrap: Bubblewrap | None
    _hierarchy: Hierarchy | None
    _available_bytes: int | None = None  # for programs, when it was opened; None: not told

    @classmethod
    def open(cls, section: SandboxSection) -> Sandbox:
        """Return the sandbox that a manifest's `sandbox` section asks for.

        Removes what earlier runs that were killed left, and proves that a program runs confined.
        Raises Missing when this machine cannot do it: no weaker mode is ever taken unasked.
        """
        limits = Limits.of(section)
        if section.mode is SandboxMode.PROCESS:
            return cls(section.mode, limits, None, None)
        found = bubblewrap.find()
        hierarchy = cgroups.find() if section.mode is SandboxMode.STRICT else None
        if hierarchy is not None:
            hierarchy.remove_leftovers()
        sandbox = cls(section.mode, limits, found, hierarchy, _available_bytes())
        sandbox._prove()
        return sandbox

    def describe(self) -> str:
        """Return one line for people: by which program, which network, which limits."""
        size = f"{self.limits.memory_bytes / GIB:g} GiB"
        count = f"{self.limits.processes} processes"
        if self._bubblewrap is None:
            return f"no isolation: your files, rights and network; {size} a process"
        shut = f"bubblewrap {self._bubblewrap.version}, no network"
        if not self.barred:
            shut += ", system calls unfiltered"
        if self._hierarchy is None:
            return f"{shut}, {size} a process, {count} unless run as root"
        each = self.shared(self.limits, 2).memory_bytes
        if each < self.limits.memory_bytes:
            size += f", {each / GIB:.2g} GiB where two run"
        return f"{shut}, cgroup v{self._hierarchy.version} limits ({size}, {count})"

    @property
    def barred(self) -> bytes:
        """The filter of system calls that bubblewrap loads; empty where there is none to load."""
        return syscalls.program() if self._bubblewrap is not None else b""

    def shared(self, limits: Limits, programs: int) -> Limits:
        """Return the limits of one of several programs that run at the same time.

        Together they may not take more memory than was available when this was opened: one that
        only holds memory would slow the others down. Only a control group holds a program to it.
        """
        if self._hierarchy is None or self._available_bytes is None:
            return limits
        each = max(_LEAST_BYTES, (self._available_bytes - _KEPT_BYTES) // programs)
        return replace(limits, memory_bytes=min(limits.memory_bytes, each))

    def argv(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], confinement: Confinement
    ) -> list[str]:
        """Return the command line that runs `argv` confined; itself in mode `process`.

        For whoever starts it another way than `start`: limits and environment of mode `process`
        are then theirs. Raises InvalidInput for paths that a sandbox must not show.
        """
        if self._bubblewrap is None:
            return list(argv)
        return self._bubblewrap.argv(argv, cwd, env, confinement)

    def group(self, limits: Limits, cpus: Sequence[int] = ()) -> Group | None:
        """Return a new control group with the limits in force; None in the weaker modes.

        What runs in it cannot leave `cpus`, if given and if the machine has the controller for it.
        """
        return self._hierarchy.group(limits, cpus) if self._hierarchy is not None else None

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        confinement: Confinement,
        stdin: Stream = subprocess.DEVNULL,
        stdout: Stream = subprocess.DEVNULL,
        stderr: Stream = subprocess.DEVNULL,
        cpus: Sequence[int] | None = None,
    ) -> Jail:
        """Start a program confined, pinned to `cpus` if given; `env` is all of its environment.

        Where this machine has the controller for it, it cannot leave them; else it may ask to.
        `stdin`, `stdout`, `stderr`: PIPE, DEVNULL, a file or a descriptor (STDOUT for `stderr`);
        what goes to a file is relayed and bounded, a pipe is the program's own and adds no delay.
        Raises InvalidInput for paths that a sandbox must not show, ToolFailed when it cannot be
        started.
        """
        command = self.argv(argv, cwd, env, confinement)
        limits = confinement.limits
        order = Order(
            argv=command,
            bubblewrap=self._bubblewrap is not None,
            cwd=str(cwd),
            env=dict(env),
            rlimits=self.rlimits(limits),
            cpus=list(cpus or ()),
            writable=[str(path) for path in confinement.writable],
            disk_bytes=limits.tmp_bytes,
            output_bytes=limits.output_bytes,
            barred=self.barred.hex(),
        )
        return Jail(order, self.group(limits, cpus or ()), (stdin, stdout, stderr))

    def rlimits(self, limits: Limits) -> dict[str, int]:
        """Return what `setrlimit` is to hold each process to, by the resource's name."""
        always = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": limits.tmp_bytes + MIB}  # /tmp is full first
        if self._bubblewrap is not None:  # elsewhere all that the user runs would count
            always["RLIMIT_SIGPENDING"] = _QUEUED_SIGNALS
        match self.mode:
            case SandboxMode.STRICT:
                return always
            case SandboxMode.NO_CGROUP | SandboxMode.PROCESS:
                # The count of processes is of the user, in all that the user runs.
                weaker = {"RLIMIT_DATA": limits.memory_bytes}
                return always | weaker | {"RLIMIT_NPROC": _own_threads() + limits.processes}
            case _:
                assert_never(self.mode)

    def _prove(self) -> None:
        """Run a program that does nothing; raises Missing, with its words, when it does not run."""
        nothing = Confinement((), (), self.limits)
        with tempfile.TemporaryFile() as log:
            try:
                with self.start(
                    ["true"],
                    cwd=Path("/"),
                    env={"PATH": "/usr/bin:/bin"},
                    confinement=nothing,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                ) as jail:
                    if jail.wait(_PROBE_S) == 0:
                        return
                    words = f"it ended with {jail.ending()}"
            except ToolFailed as error:
                words = error.message
            log.seek(0)
            said = log.read().decode("utf-8", "replace").strip()
        hint = bubblewrap.HINT if self._hierarchy is None else f"{bubblewrap.HINT}; {cgroups.HINT}"
        raise Missing(f"this machine runs no program in a sandbox: {said or words}", hint=hint)


def _available_bytes() -> int | None:
    """Return how much memory this machine can give away without writing anything out."""
    for line in Path("/proc/meminfo").read_text("utf-8").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return None


def _own_threads() -> int:
    """Return how many threads this user runs now."""
    count = 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            if folder.stat().st_uid == os.getuid():
                count += sum(1 for _ in (folder / "task").iterdir())
        except OSError:  # gone meanwhile, or not ours to see
            continue
    return count
