"""Lines, tables, facts and stories as GitHub-flavoured markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from bot.render import markdown, text
from bot.render.content import Chapter, Facts, Line, Span, Table

_OPEN, _CLOSE = "\N{LEFT DOUBLE QUOTATION MARK}", "\N{RIGHT DOUBLE QUOTATION MARK}"


def line(spans: Line) -> str:
    """Return one line, with everything escaped that is not of our words."""
    return "".join(map(_span, spans)).strip()


def table(shown: Table) -> str:
    """Return a table and the paragraphs around it, without its title; empty without rows."""
    if not shown.rows:
        return ""
    right = "".join("r" if column.kind == "right" else "l" for column in shown.head)
    head = [column.name for column in shown.head]
    rows = markdown.table(head, ([line(cell) for cell in row] for row in shown.rows), right=right)
    return "\n\n".join(part for part in (line(shown.before), rows, line(shown.note)) if part)


def folded(shown: Table) -> str:
    """Return a table that starts collapsed below its title; empty without rows."""
    return markdown.details(shown.title, table(shown)) if shown.rows else ""


def facts(known: Facts) -> str:
    """Return a list with one fact a line."""
    return markdown.bullets(f"{name}: {line(spans)}" for name, spans in known)


def story(chapters: Iterable[Chapter], most: int) -> str:
    """Return a list with one step a line, and at most `most` characters of what each one said."""
    return markdown.bullets(_chapter(chapter, most) for chapter in chapters)


def _chapter(chapter: Chapter, most: int) -> str:
    quoted = text.inline(chapter.quoted, most)
    said = f"{_OPEN}{quoted}{_CLOSE}" if quoted else ""
    return " ".join(part for part in (f"{line(chapter.head)}.", said, line(chapter.note)) if part)


def _span(span: Span) -> str:
    if span.kind == "theirs":
        return text.inline(span.text)
    if span.kind == "code":
        return text.code(span.text)
    return f"**{span.text}**" if span.kind == "strong" else span.text
