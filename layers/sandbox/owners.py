"""Names that say which process of ours owns a thing, so that what a dead one left can be removed."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

# fvec-<pid namespace>-<pid>-<start time in ticks>-<token>
_NAME = re.compile(r"^fvec-(\d+)-(\d+)-(\d+)-[0-9a-f]+$")


def new_name() -> str:
    """Return a name for something of this process's."""
    own = os.getpid()
    return f"fvec-{_pid_namespace()}-{own}-{start_ticks(own)}-{secrets.token_hex(4)}"


def is_orphan(name: str) -> bool:
    """Say whether a name is one of ours, of this machine, and its owner is no longer there."""
    match = _NAME.match(name)
    if match is None or int(match[1]) != _pid_namespace():
        return False
    return start_ticks(int(match[2])) != int(match[3])


def start_ticks(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; -1 when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return -1
    # The second field is the program's name in parentheses and may hold anything.
    return int(stat.rpartition(b")")[2].split()[19])


def _pid_namespace() -> int:
    """Containers may share cgroups or /dev/shm and still count processes apart."""
    return Path("/proc/self/ns/pid").stat().st_ino
