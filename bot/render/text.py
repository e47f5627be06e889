"""Untrusted text made harmless for GitHub-flavoured markdown.

Names, messages, cards and code of a repository, logs and model answers are data. None of them
may mention a person, reference or close an issue, open HTML, show an image, leave its table cell
or its fence, or hide text behind control characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
_BREAK = "&#8203;"  # zero-width space: ends an autolink without being seen
_BREAK_CHARACTER = "\N{ZERO WIDTH SPACE}"
_TRIGGER = re.compile(r"(@)(?=\w)|(#)(?=\d)|(\bGH-)(?=\d)|(:)(?=//)|(\bwww)(?=\.)", re.IGNORECASE)
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()!|~$])")
_CODE_SPAN = re.compile(r"(?<!`)(`{1,3})(?!`)(.+?)(?<!`)\1(?!`)")
_LIST_ITEM = re.compile(r"^\s{0,3}(?:([-*+])|(\d{1,3})[.)])\s+(?=\S)")
_LINE_START = re.compile(r"^(\s*)([-+=#])")


def visible(text: str) -> str:
    """Drop control, format and unassigned characters (bidirectional overrides among them).

    Line feeds stay, tabs become spaces, lone surrogates become the replacement character.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").expandtabs(4)
    kept = (
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) == "Cs" else c
        for c in text
        if c == "\n" or unicodedata.category(c) not in {"Cc", "Cf", "Cn", "Co", "Zl", "Zp"}
    )
    return "".join(kept)


def one_line(text: str, limit: int | None = None) -> str:
    """Return the visible text on one line, cut to `limit` characters."""
    line = " ".join(visible(text).split())
    return line if limit is None or len(line) <= limit else line[: limit - 1].rstrip() + ELLIPSIS


def title(text: str, limit: int = 120) -> str:
    """Return one line for a pull request's title, which is plain text and not markdown."""
    return _TRIGGER.sub(lambda hit: hit.group() + _BREAK_CHARACTER, one_line(text, limit))


def inline(text: str, limit: int | None = None) -> str:
    """Return text for one line of markdown or a table cell: it reads as it was written."""
    return _escape(one_line(text, limit))


def code(text: str, limit: int | None = None) -> str:
    """Return a code span that nothing inside can end."""
    line = one_line(text, limit)
    if not line:
        return ""
    ticks = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def fence(text: str, language: str = "") -> str:
    """Return a fenced block whose fence is longer than any run of backticks inside."""
    if not re.fullmatch(r"[a-z0-9]*", language):
        raise ValueError(f"not a language name: {language!r}")
    ticks = "`" * max(3, _longest_run(text) + 1)
    return f"{ticks}{language}\n{visible(text).rstrip()}\n{ticks}"


def prose(text: str) -> str:
    """Return paragraphs and lists with their code spans; all other markup is escaped."""
    paragraphs = re.split(r"\n\s*\n", visible(text).strip())
    return "\n\n".join("\n".join(map(_prose_line, part.split("\n"))) for part in paragraphs)


def code_spans(line: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a line, each with whether it stood between backticks."""
    position = 0
    for span in _CODE_SPAN.finditer(line):
        yield line[position : span.start()], False
        yield span[2], True
        position = span.end()
    yield line[position:], False


def _prose_line(line: str) -> str:
    marker = ""
    item = _LIST_ITEM.match(line)
    if item:
        marker = "- " if item[1] else f"{item[2]}. "
        line = line[item.end() :]
    parts = (code(part) if is_code else _escape(part) for part, is_code in code_spans(line))
    body = "".join(parts).strip()
    return marker + (body if marker else _LINE_START.sub(r"\1\\\2", body))


def _escape(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _TRIGGER.sub(lambda hit: hit.group() + _BREAK, _MARKDOWN.sub(r"\\\1", text))


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)
