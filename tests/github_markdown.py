"""What GitHub would make of a text: a real parser, and the links that it adds to plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

GFM = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough")
PLAIN = frozenset({"text", "softbreak", "code_inline"})
BLOCKS = frozenset(
    f"{name}_{end}"
    for name in ("paragraph", "bullet_list", "ordered_list", "list_item")
    for end in ("open", "close")
) | {"inline"}
# More than GitHub takes for one, so that what passes here passes there.
REFERENCES = {
    "mention": re.compile(r"@[A-Za-z0-9]"),
    "issue": re.compile(r"#\d"),
    "issue, old form": re.compile(r"GH-\d", re.IGNORECASE),
    "commit": re.compile(
        r"(?<![0-9A-Za-z_])(?!\d+(?!\w))[0-9a-f]{7,40}(?![0-9A-Za-z_])", re.IGNORECASE | re.ASCII
    ),
    "address": re.compile(r"[a-z]://", re.IGNORECASE),
    "bare address": re.compile(r"www\.", re.IGNORECASE),
    "mail": re.compile(r"[\w.+-]@[A-Za-z0-9]"),
    "emoji": re.compile(
        r":(?:(?=[\w+-]*[a-z])[\w+-]{1,60}|100|1234|[+-]1):", re.IGNORECASE | re.ASCII
    ),
    "math": re.compile(r"(?<!\u200b)\$"),
}


def parts(markdown: str) -> Iterator[Token]:
    """Yield every token, those inside of a line too."""
    for token in GFM.parse(markdown):
        yield token
        yield from token.children or ()


def blocks(markdown: str) -> set[str]:
    """Return the types of the blocks."""
    return {token.type for token in GFM.parse(markdown)}


def spans(markdown: str) -> set[str]:
    """Return the types of what stands inside of lines."""
    return {child.type for token in GFM.parse(markdown) for child in token.children or ()}


def plain(markdown: str) -> str:
    """Return the text outside of code, line by line, as GitHub looks for references in it."""
    lines = []
    for token in GFM.parse(markdown):
        children = token.children or ()
        lines.append("".join(c.content if c.type == "text" else "\n" for c in children))
    return "\n".join(lines)


def references(markdown: str) -> set[str]:
    """Return what GitHub might make a link, a picture or a formula of, by its kind."""
    text = plain(markdown)
    return {kind for kind, pattern in REFERENCES.items() if pattern.search(text)}
