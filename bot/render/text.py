"""Untrusted text made harmless for GitHub-flavoured markdown.

Names, messages, cards and code of a repository, logs and model answers are data. None of them
may mention a person, reference or close an issue, link a commit or an address, open HTML, math or
an emoji, show an image, leave its table cell, its line or its fence, pass for a marker of ours,
carry a secret, or hide text behind characters that nobody sees.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from layers.redact import redact
from layers.repository.inert import BREAK, REFERENCE, SKIPS, broken, seen

ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
_BREAK = "&#8203;"  # zero-width space: ends an autolink without being seen
_TRIGGER = re.compile(
    rf"(?:{REFERENCE}"
    # Emoji have a letter in their names, or are one of these; a line and a column are none.
    r"|:(?=(?=[\d_+\\-]*[^\W\d_])[\w+\\-]{1,120}:)|:(?=(?:100|1234|[+-]1):))",
    re.IGNORECASE,
)
_COMMIT = re.compile(r"(?<!\w)(?!\d+(?!\w))[0-9a-f]{7,40}(?!\w)", re.ASCII | re.IGNORECASE)
_MARKER = re.compile(r"<!--(?=\s*fvec:)", re.IGNORECASE)
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()!|~])")
_CODE_SPAN = re.compile(r"(?<!`)(`{1,3})(?!`)(.+?)(?<!`)\1(?!`)")
_LIST_ITEM = re.compile(r"^\s{0,3}(?:([-*+])|(\d{1,3})[.)])\s+(?=\S)")
_LINE_START = re.compile(r"^(?:(?=[-+=#])|(?P<number>\d{1,9})(?=[.)](?:\s|$)))")
_DRAWN = frozenset({"mermaid", "math", "geojson", "topojson", "stl", "suggestion"})
_NOT_IN_ADDRESS = re.compile(r"[^A-Za-z0-9._~:/?#@&=+,;%-]")


def visible(text: str) -> str:
    """Drop what nobody sees (control, format and unassigned characters, fillers) and secrets.

    Line feeds stay, tabs become spaces, lone surrogates become the replacement character.
    """
    # Before anything is cut: half a secret is no longer known for one.
    return redact(seen(text))


def one_line(text: str, limit: int | None = None) -> str:
    """Return the visible text on one line, cut to `limit` characters."""
    line = " ".join(visible(text).split())
    return line if limit is None or len(line) <= limit else line[: limit - 1].rstrip() + ELLIPSIS


def cut(text: str, limit: int) -> str:
    """Return the visible text with its lines, cut to `limit` characters."""
    shown = visible(text).strip()
    return shown if len(shown) <= limit else shown[: limit - 1].rstrip() + ELLIPSIS


def title(text: str, limit: int = 120) -> str:
    """Return one line for a pull request's title, which is plain text and not markdown.

    It becomes a commit message when the pull request is squashed: it skips no checks either.
    """
    return broken(_TRIGGER, broken(SKIPS, one_line(text, limit)))


def inline(text: str, limit: int | None = None) -> str:
    """Return text for one line of markdown or a table cell: it reads as it was written.

    A line may start with it, too.
    """
    return _line_start(_escape(one_line(text, limit)))


def code(text: str, limit: int | None = None) -> str:
    """Return a code span that nothing inside can end; empty where the text is."""
    line = _unmarked(one_line(text, limit))
    if not line:
        return ""
    ticks = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def fence(text: str, language: str = "") -> str:
    """Return a fenced block whose fence is longer than any run of backticks inside.

    Raises ValueError for a language that is no name, or that GitHub draws in place of showing it.
    """
    if not re.fullmatch(r"[a-z0-9]*", language) or language in _DRAWN:
        raise ValueError(f"not a language name: {language!r}")
    shown = _unmarked(visible(text)).rstrip()
    ticks = "`" * max(3, _longest_run(shown) + 1)
    return f"{ticks}{language}\n{shown}\n{ticks}"


def prose(text: str) -> str:
    """Return paragraphs and lists with their code spans; all other markup is escaped."""
    paragraphs = re.split(r"\n\s*\n", visible(text).strip())
    return "\n\n".join("\n".join(map(_prose_line, part.split("\n"))) for part in paragraphs)


def address(url: str) -> str:
    """Return a URL or a relative path that can stand as the destination of a link or an image."""
    return _NOT_IN_ADDRESS.sub(_percent, one_line(url))


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
    body = ""
    for part, is_code in code_spans(line):
        piece = code(part) if is_code else _escape(part)
        # Two runs of backticks side by side would be one, of another length.
        body += f"{_BREAK}{piece}" if body.endswith("`") and piece.startswith("`") else piece
    return marker + _line_start(body.strip())


def _escape(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _TRIGGER.sub(rf"\g<0>{_BREAK}", _MARKDOWN.sub(r"\\\1", text))
    # In a code span a commit is no link, and can still be copied. Alone, an escaped dollar opens
    # math all the same; behind a character that is no blank it does not.
    return _COMMIT.sub(r"`\g<0>`", text).replace("$", f"{BREAK}\\$")


def _line_start(line: str) -> str:
    """Escape what would be a heading, a list, a rule or an underline at the start of a line."""
    return _LINE_START.sub(lambda hit: (hit["number"] or "") + "\\", line)


def _unmarked(text: str) -> str:
    return broken(_MARKER, text)


def _percent(character: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in character.group().encode())


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)
