"""Where the processes of a judgement run, what they may see and use, and what a call gives back."""

from __future__ import annotations

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
How: TypeAlias = Literal["fresh", "refill", "read_only", "strided"]


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


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a process said of the function that it loaded."""

    attributes: dict[str, Any]
    changes: frozenset[str]
    versions: dict[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """One call: its time by our clock, its CPU time by the kernel's, and what came back."""

    wall_s: float
    cpu_s: float  # of all its threads
    waited_s: float  # it or we were ready to run, but others had the CPU
    body: bytes  # of the outputs; empty where it raised
    raised: str | None = None
    fetch_s: float = 0.0  # from asking for the outputs to having them, less what others took
    fetch_cpu_s: float = 0.0  # of all its threads meanwhile

    @property
    def busy_s(self) -> float:
        """The call's own time: what others took of its CPU is not its."""
        return max(self.wall_s - self.waited_s, self.cpu_s)

    def outputs(self) -> Tree:
        """Return the outputs as leaves; raises CodecError."""
        return codec.decode(self.body)


def environment(cell: Cell) -> dict[str, str]:
    """Return what every process sees: nothing of ours, one thread, a home that is empty."""
    scrubbed = scrubbed_environment(path_first=cell.python.parent, home=Path("/"))
    return {**scrubbed, **ONE_THREAD, "PYTHONHASHSEED": str(cell.hash_seed)}


def confinement(cell: Cell, spec: Spec) -> Confinement:
    """Return what a process may see: the interpreter's environment, the code, this folder."""
    environment = cell.python.parent.parent
    folders: Mapping[Path, None] = dict.fromkeys([environment, spec.folder, CHILD.parent])
    return Confinement(read_only=list(folders), writable=[], limits=cell.limits)
