"""The few markdown blocks that the bodies are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# A pipe ends a cell even inside a code span, where nothing but a backslash before it helps; one
# backslash of two would be taken for the escape of the other.
_PIPE = re.compile(r"(?<!\\)(\\*)\|")
_APART = "\N{ZERO WIDTH SPACE}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: str = "") -> str:
    """Return a table; cells are markdown already, `right` has one letter `r` or `l` per column."""
    aligned = right[: len(head)].ljust(len(head), "l")  # a ruler of another length is no table
    ruler = ["---:" if side == "r" else "---" for side in aligned]
    lines = [head, ruler, *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def details(summary: str, body: str) -> str:
    """Return a block that starts collapsed; blank lines make GitHub read `body` as markdown."""
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n\n</details>"


def bullets(items: Iterable[str]) -> str:
    """Return a list, one line each."""
    return "\n".join(f"- {item}" for item in items)


def _cell(text: str) -> str:
    return _PIPE.sub(_escaped, text.replace("\n", " "))


def _escaped(pipe: re.Match[str]) -> str:
    slashes: str = pipe[1]
    if len(slashes) % 2:
        return pipe.group()  # escaped already
    return f"{slashes}{_APART if slashes else ''}\\|"
