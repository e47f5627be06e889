"""What a rendering of evidence shows, as data: lines of spans, tables and facts. Pure.

`bot.render.measured`, `bot.render.surroundings` and `bot.render.agents` decide columns, words and
numbers once. Two back ends write them: `bot.render.as_markdown` for pull requests and comments,
and `templates/content.html.j2` for the report. Each of them escapes what comes from outside; a
terminal takes the plain text of a line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from bot.render.text import one_line


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one line: made by the functions below, which say what may be in it."""

    kind: Literal["words", "theirs", "code", "strong", "verdict"]
    text: str  # as a reader sees it
    link: str = ""  # where it leads to from the report; a body has no such places


Line = tuple[Span, ...]
Row = tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """The head of a column; `right` is for numbers, `title` and `why` are texts that need room."""

    name: str
    kind: Literal["left", "right", "title", "why"]


@dataclass(frozen=True, slots=True)
class Table:
    """A table between two paragraphs. Without rows nothing of it is shown."""

    title: str
    head: tuple[Column, ...]
    rows: tuple[Row, ...]
    before: Line = ()
    note: Line = ()


Facts = tuple[tuple[str, Line], ...]  # a name in our words, and what is known


@dataclass(frozen=True, slots=True)
class Chapter:
    """One step of a story: what we say of it, and its author's own words as a quotation."""

    head: Line
    quoted: str = ""  # text from outside, of several lines
    note: Line = ()


def words(text: str) -> Span:
    """Return words and numbers of ours. Nothing escapes them: no text from outside may be there."""
    return Span("words", text)


def strong(text: str) -> Span:
    """Return words of ours that stand out."""
    return Span("strong", text)


def verdict(value: str) -> Span:
    """Return a verdict or the result of a gate: one of a few words of ours."""
    return Span("verdict", str(value))


def theirs(text: str, limit: int | None = None, link: str = "") -> Span:
    """Return text from outside, cut to `limit` characters."""
    return Span("theirs", one_line(text, limit), link)


def code(text: str, limit: int | None = None, link: str = "") -> Span:
    """Return a name, code or commit, from outside too; where it is empty nothing is shown."""
    return Span("code", one_line(text, limit), link)


def plain(line: Line) -> str:
    """Return the text of a line, for a place that has no markup."""
    return "".join(span.text for span in line).strip()


def row(*cells: Span | Line) -> Row:
    """Return the cells of one row."""
    return tuple((cell,) if isinstance(cell, Span) else cell for cell in cells)


def said(*texts: str) -> Row:
    """Return cells that hold words and numbers of ours alone."""
    return row(*map(words, texts))


def left(*names: str) -> tuple[Column, ...]:
    """Return columns of text."""
    return tuple(Column(name, "left") for name in names)


def right(*names: str) -> tuple[Column, ...]:
    """Return columns of numbers."""
    return tuple(Column(name, "right") for name in names)


def joined(spans: Iterable[Span], by: str = ", ") -> Line:
    """Return the spans on one line with our words `by` between them."""
    line: list[Span] = []
    for span in spans:
        line += [words(by), span] if line else [span]
    return tuple(line)
