"""Formats of date and time whose every field has a fixed place, and the function that reads one.

`datetime.fromisoformat` reads year-month-day and hour:minute:second in C. A text of another fixed
format is put in that order first; what it does not read, the original call reads or refuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTHS = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2, "f": 6}
_DATE = "Ymd"
_TIMES = ("", "HM", "HMS", "HMSf")
_BEFORE = {"m": "-", "d": "-", "H": " ", "M": ":", "S": ":", "f": "."}  # in ISO order

_LITERALS = " -/.:,_TZ"

# what pandas reads without a format: a date, alone or with a time after a space or a T
ISO_TESTS = (
    "len(text) in (10, 19)",
    'text[4] == text[7] == "-"',
    '(len(text) == 10 or (text[13] == text[16] == ":" and text[10] in " T"))',
    'text[11:13] != "24"',
)


class UnsafeError(Exception):
    """The call cannot be replaced; the text says why."""


@dataclass(frozen=True)
class Layout:
    """Where in a text of `width` characters each field starts, and which literals are where."""

    width: int
    starts: Mapping[str, int]
    literals: Sequence[tuple[int, str]]


def layout(text: str) -> Layout:
    """Return the layout of a format; raises UnsafeError unless all its fields are of fixed width."""
    starts: dict[str, int] = {}
    literals: list[tuple[int, str]] = []
    at = 0
    characters = iter(text)
    for character in characters:
        field = next(characters, "") if character == "%" else ""
        if character == "%" and field not in WIDTHS:
            raise UnsafeError(f"the format's %{field} has no fixed width")
        if not field and character not in _LITERALS:
            raise UnsafeError(f"the format has {character!r} between its fields")
        if field in starts:
            raise UnsafeError("the format names a field twice")
        if field:
            starts[field] = at
        else:
            literals.append((at, character))
        at += WIDTHS.get(field, 1)
    time = "".join(field for field in "HMSf" if field in starts)
    if not set(_DATE) <= starts.keys() or time not in _TIMES:
        raise UnsafeError("the format lacks a part of the date or the time")
    return Layout(at, starts, literals)


def slow_in_columns(where: Layout) -> bool:
    """Return whether pandas reads a column of this format field by field.

    Year, month, day in this order it reads in C; that was 1.4 times faster than ours at 2,000 rows.
    """
    return where.starts["Y"] > 0


def tests(where: Layout) -> Sequence[str]:
    """Return the tests that a text has this layout's length and literals."""
    places: dict[str, list[int]] = {}
    for at, literal in where.literals:
        places.setdefault(literal, []).append(at)
    found = [f"len(text) == {where.width}"]
    for literal, ats in places.items():
        found.append(" == ".join([*(f"text[{at}]" for at in ats), f'"{literal}"']))
    if "H" in where.starts:
        hour = where.starts["H"]
        found.append(f'text[{hour}:{hour + 2}] != "24"')  # midnight to some versions of Python
    if "f" in where.starts:
        start = where.starts["f"]
        found.append(f"text[{start}:{start + WIDTHS['f']}].isdigit()")  # else a zone may end it
    return found


def iso_text(where: Layout) -> str:
    """Return the expression for the text in ISO order."""
    order = [field for field in "YmdHMSf" if field in where.starts]
    literals = dict(where.literals)
    known = {"-": "-", ":": ":", " ": " T", ".": "."}
    in_order = sorted(where.starts, key=where.starts.__getitem__) == order
    between = all(
        literals.get(where.starts[field] - 1, "?") in known[_BEFORE[field]] for field in order[1:]
    )
    if in_order and between and len(literals) == len(order) - 1:
        return "text"
    parts = []
    for field in order:
        start = where.starts[field]
        before = f'"{_BEFORE[field]}" + ' if field in _BEFORE else ""
        parts.append(f"{before}text[{start}:{start + WIDTHS[field]}]")
    return " + ".join(parts)
