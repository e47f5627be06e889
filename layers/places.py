"""Places of this machine taken out of text that leaves it: to a service, a memory, a pull request.

What fails says where: a server's log, an error of git, a program at work. Where a home or a cache
lies, and so who runs this, is nobody else's business, and helps no author. Also how many CPUs of
this machine there are to use, which is asked in many places.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from layers.programs import cache_root

_OF_THE_SYSTEM = frozenset({"/", "/usr", "/usr/local", "/opt", "/home", "/tmp", "/var", "/nix"})  # noqa: S108
_OCTAL = re.compile(r"\\([0-7]{3})")  # how mountinfo writes a space
_START, _END = r"(?<![\w.~-])", r"(?![\w.-])"


def without_places(text: str, more: Mapping[Path, str] | None = None) -> str:
    """Return a text with folders of this machine named by what they are; `more` are others.

    The result comes back as it is.
    """
    return _replaced(
        text, {**_places(), **{str(path): name for path, name in (more or {}).items()}}
    )


def _places() -> dict[str, str]:
    home = os.path.expanduser("~")  # noqa: PTH111  # it never fails
    return {
        home: "HOME",
        sys.base_prefix: "PYTHON",
        sys.prefix: "PYTHON",
        str(cache_root()): "CACHE",
    }


def _replaced(text: str, places: Mapping[str, str]) -> str:
    for place in sorted(places, key=len, reverse=True):  # what lies in another one comes first
        if place in _OF_THE_SYSTEM or not place.startswith("/"):
            continue
        text = re.sub(f"{_START}{re.escape(place)}{_END}", places[place], text)
    return text


def usable_cpus(own: Path = Path("/proc/self")) -> int:
    """Return how many CPUs this process can keep busy: those it may run on, within its quota.

    A quota (`docker run --cpus`) is of its control group or of one above: what has used it up stands
    still for the rest of the period, so a part of a CPU counts as none. `own` is the folder in which
    the kernel tells of the process.
    """
    allowed = len(os.sched_getaffinity(0))
    return max(1, min(allowed, int(min(_quotas(own), default=allowed))))


def _quotas(own: Path) -> Iterator[float]:
    """Yield the CPUs that the control groups of a process are limited to, each that has a limit."""
    for folder in _control_groups(own):
        words = _words(folder / "cpu.max") or (
            _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
        )
        if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]):
            yield int(words[0]) / int(words[1])  # else "max", or -1: no limit


def _control_groups(own: Path) -> Iterator[Path]:
    """Yield the folders of a process's groups that may limit CPU, each with all above it."""
    groups = {}
    for line in _lines(own / "cgroup"):
        _, controllers, group = line.split(":", 2)
        if not controllers or "cpu" in controllers.split(","):
            groups["cgroup" if controllers else "cgroup2"] = PurePosixPath(group)
    for line in _lines(own / "mountinfo"):
        fields, _, kind = line.partition(" - ")
        system, _, options = kind.split(" ", 2)
        if system not in groups or (system == "cgroup" and "cpu" not in options.split(",")):
            continue
        root, point = (_OCTAL.sub(_character, text) for text in fields.split(" ")[3:5])
        inside = groups[system]
        below = inside.relative_to(root) if inside.is_relative_to(root) else PurePosixPath()
        if ".." in below.parts:  # of a group outside of what this container sees
            below = PurePosixPath()
        yield from (Path(point, part) for part in (below, *below.parents))


def _character(found: re.Match[str]) -> str:
    return chr(int(found[1], 8))


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def _words(file: Path) -> list[str]:
    return " ".join(_lines(file)).split()
