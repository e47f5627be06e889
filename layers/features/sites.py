"""What a codemod answers about one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Site:
    """One place that a rewrite would change.

    `lines` are the lines (from 1) whose time the rewrite could save: what the profile is
    asked for. `what` says in a few words what stands there. `alone` are those lines that do
    nothing else, so that their own time counts as well.
    """

    path: str
    line: int
    lines: Sequence[int]
    what: str
    alone: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """One place of the pattern's kind that is left as it is, and why."""

    reason: str
    line: int


Found = Site | Refusal


def sites(found: Sequence[Found]) -> list[Site]:
    """Return the places that can be changed."""
    return [item for item in found if isinstance(item, Site)]


def refusals(found: Sequence[Found]) -> list[Refusal]:
    """Return the places that cannot."""
    return [item for item in found if isinstance(item, Refusal)]
