"""Where the processes of a judgement run, what they may see and use, and what a call gives back."""

from __future__ import annotations

import py_compile
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from layers.callables import codec
from layers.callables.codec import Tree
from layers.callables.spec import Spec
from layers.programs import ONE_THREAD, scrubbed_environment
from layers.sandbox.base import Confinement, Limits
from layers.sandbox.box import Sandbox

CHILD = Path(codec.__file__).with_name("child.py")
BESIDE_CHILD = ("codec.py", "memory.py", "snapshot.py")  # what it loads
# What one thread is said by where functions run as elsewhere: nothing that only we would set.
ONE_THREAD_ELSEWHERE = {"OMP_THREAD_LIMIT": "1"}
How: TypeAlias = Literal["fresh", "refill", "read_only"]


class Ended(Exception):  # an answer, not an error
    """The process is gone or broke the protocol; `reason` is a reason code."""

    def __init__(self, role: str, reason: str, detail: str) -> None:
        """Keep whose process it was, with the reason code."""
        super().__init__(f"{role}: {reason}: {detail}")
        self.role, self.reason, self.detail = role, reason, detail


@dataclass(frozen=True, slots=True)
class Cell:
    """Where processes of one judgement run, and what they may use."""

    sandbox: Sandbox
    python: Path
    limits: Limits
    logs: Path
    cpu: int  # that both arms are pinned to
    spin: bool  # whether the parent has another CPU to wait on
    hash_seed: int = 0  # of str and bytes, the same in all processes of a launch
    caller: Path = CHILD  # what drives a function; see `laid_out`
    elsewhere: bool = False  # another environment and command line than in all other launches

    @property
    def word(self) -> str:
        """The one word of the command line that code sees."""
        return "serve" if self.elsewhere else "main"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a process said of the function that it loaded."""

    attributes: dict[str, Any]
    changes: frozenset[str]
    versions: dict[str, str]
    parameters: tuple[tuple[str, str, bool], ...] = ()  # name, kind, whether it may be left out


@dataclass(frozen=True, slots=True)
class Answer:
    """One call: its time by our clock, its CPU time by the kernel's, and what came back."""

    wall_s: float
    cpu_s: float  # of all its threads
    waited_s: float  # it or we were ready to run, but others had the CPU
    body: bytes  # of the outputs; empty where it raised
    raised: str | None = None
    fetch_s: float = 0.0  # from asking for the outputs to having them, less what others took
    fetch_cpu_s: float = 0.0  # of all its threads meanwhile: copying out, mostly

    @property
    def busy_s(self) -> float:
        """The call's own time: what others took of its CPU is not its."""
        return max(self.wall_s - self.waited_s, self.cpu_s)

    def outputs(self) -> Tree:
        """Return the outputs as leaves; raises CodecError."""
        return codec.decode(self.body)


def laid_out(folder: Path) -> Path:
    """Copy what drives a function to a folder whose name tells nothing; return the file to run.

    Code under judgement sees that folder and the command line. It may know where it runs; it shall
    not know it from a name.
    """
    for name in BESIDE_CHILD:
        file = shutil.copyfile(CHILD.with_name(name), folder / name)
        py_compile.compile(str(file), doraise=True)  # else every process does it
    return shutil.copyfile(CHILD, folder / "main.py")


def environment(cell: Cell) -> dict[str, str]:
    """Return what every process sees: nothing of ours, one thread, a home that is empty."""
    scrubbed = scrubbed_environment(path_first=cell.python.parent, home=Path("/"))
    threads = ONE_THREAD_ELSEWHERE if cell.elsewhere else ONE_THREAD
    return {**scrubbed, **threads, "PYTHONHASHSEED": str(cell.hash_seed)}


def confinement(cell: Cell, spec: Spec) -> Confinement:
    """Return what a process may see: the interpreter's environment, the code, what drives it."""
    environment = cell.python.parent.parent
    folders: Mapping[Path, None] = dict.fromkeys([environment, spec.folder, cell.caller.parent])
    return Confinement(read_only=list(folders), writable=[], limits=cell.limits)
