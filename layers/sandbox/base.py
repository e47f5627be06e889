"""Pure: what one confined program may see and use, and how it can end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from layers.manifest import SandboxSection

GIB = 2**30
MIB = 2**20


class Ending(StrEnum):
    """How a confined program came to its end; the values are reason codes."""

    EXITED = "exited"
    CRASHED = "crashed"  # by a signal that we did not send
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    PROCESS_LIMIT = "process_limit"
    OUTPUT_LIMIT = "output_limit"  # too much written to its log, or to its writable folders


@dataclass(frozen=True, slots=True)
class Limits:
    """What one confined program may use, with all processes that it starts.

    `processes` counts threads too. `tmp_bytes` bounds /tmp, /dev/shm, every single file and the
    growth of the writable folders, each by itself; `output_bytes` bounds what it writes to a log.
    """

    memory_bytes: int
    processes: int
    tmp_bytes: int = GIB
    output_bytes: int = 64 * MIB

    @classmethod
    def of(cls, section: SandboxSection) -> Limits:
        """Return the limits that a manifest's `sandbox` section names."""
        return cls(memory_bytes=int(section.memory_gib * GIB), processes=section.processes)


@dataclass(frozen=True, slots=True)
class Confinement:
    """What one program sees besides the system's folders, at the same paths as outside.

    A deeper path rules over the one that it lies in; `hidden` files and folders appear empty.
    `network` lets it reach all that this machine reaches, services on its own loopback included.
    """

    read_only: Sequence[Path]
    writable: Sequence[Path]
    limits: Limits
    hidden: Sequence[Path] = ()
    network: bool = False  # for programs that ask a service themselves, never for a candidate
