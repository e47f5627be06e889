"""A markdown body made of sections, kept below the size that GitHub takes.

This is where bodies leave: what looks like a secret is taken out once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bot.render.markdown import details
from layers.redact import redact

LIMIT = 60_000  # characters; GitHub refuses a body of more than 65,536
KEPT_LAST = frozenset({"summary", "notes", "reproduce"})
_SHED = "Left out for its size: {names}. All of it is in `{data}`."


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a body; `name` is what it is shed by. A folded one starts collapsed."""

    name: str
    heading: str
    body: str
    folded: bool = False

    def __str__(self) -> str:
        """Return the section with its heading, if it has one."""
        if self.folded:
            return details(self.heading, self.body)
        return f"## {self.heading}\n\n{self.body}" if self.heading else self.body


@dataclass(frozen=True, slots=True)
class Ending:
    """How a body ends, and what goes first when it is too long."""

    footer: str
    data: str  # the file that has everything
    shed_first: Sequence[str]


def fit(kept: Sequence[Section], ending: Ending, limit: int = LIMIT) -> str:
    """Join the sections that have a body, shedding by name until they are within `limit`.

    What still looks like a secret in one of them is taken out.
    """
    kept = [replace(section, body=redact(section.body)) for section in kept if section.body]
    ending = replace(ending, footer=redact(ending.footer))
    shed: list[str] = []
    body = _join(kept, shed, ending)
    for name in ending.shed_first:
        if len(body) <= limit:
            return body
        if any(section.name == name for section in kept):
            kept = [section for section in kept if section.name != name]
            shed.append(name)
            body = _join(kept, shed, ending)
    if len(body) <= limit:
        return body
    # What is left is the summary, the explanation and the tables that decide: only absurd texts
    # get here, so the summary and the pointer to the evidence are what a reader can use.
    last = [section for section in kept if section.name in KEPT_LAST]
    gone = [section.name for section in kept if section.name not in KEPT_LAST]
    return _join(last, [*shed, *gone], ending)[:limit]


def _join(kept: Sequence[Section], shed: Sequence[str], ending: Ending) -> str:
    names = ", ".join(name.replace("_", " ") for name in shed)
    note = [_SHED.format(names=names, data=ending.data)] if shed else []
    return "\n\n".join([*map(str, kept), *note, "---", ending.footer]) + "\n"
