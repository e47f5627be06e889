"""Stacks as `py-spy record --format raw` writes them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from layers.errors import InvalidInput, Location

_FRAME = re.compile(r"^(?P<function>.*?) \((?P<file>.*?)(?::(?P<line>\d+))?\)$")
_BETWEEN_FRAMES = re.compile(r"(?<=\));")


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a sampled stack; `line` counts from 1, 0 where the profiler knows none."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Sampled:
    """One distinct stack, outermost frame first, and how many samples found it."""

    frames: tuple[Frame, ...]
    count: int


def parse_collapsed(text: str, path: Path | None = None) -> list[Sampled]:
    """Parse py-spy's `raw` format: `frame;frame;... count`, one stack a line.

    A frame reads `function (file:line)`; one that does not is kept by its text alone. Raises
    InvalidInput with the line when a line has no sample count. A stack may be empty: the thread
    ran outside Python.
    """
    stacks = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        stack, _, count = line.rpartition(" ")
        if not (count.isascii() and count.isdigit()):
            raise InvalidInput(
                "not a collapsed stack",
                at=Location(path or Path("<profile>"), number),
                hint="expected 'frame;frame;... count' as py-spy record --format raw writes it",
            )
        frames = _BETWEEN_FRAMES.split(stack) if stack else []
        stacks.append(Sampled(tuple(map(_frame, frames)), int(count)))
    return stacks


def _frame(text: str) -> Frame:
    match = _FRAME.match(text)
    if match is None:
        return Frame(text, "", 0)
    return Frame(match["function"], match["file"], int(match["line"] or 0))
