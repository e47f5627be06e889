"""Whether all that an edit adds can be read: by the accuracy judge, and by people. Pure.

What is taken out as a secret, or is not text, is seen by nobody who is to judge it. So an edit that
holds such a thing is not tried, whatever it is: the way around is its author's, and an easy one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from layers.agents.workbench.named import listed
from layers.agents.workbench.quoting import SOURCE_ENCODINGS, hidden_lines

_COOKIE = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")  # as an interpreter looks for it
_COOKIE_LINES = 2


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why nobody can read an edit; `reason` is a stable code, `detail` for its author."""

    reason: str
    detail: str


def unreadable(
    files: Mapping[str, bytes | None],
    original: Callable[[str], bytes | None],
    redacted: Callable[[str], str],
) -> Unreadable | None:
    """Return what of an edit cannot be read, None where all can.

    `original` is what a file held before, `redacted` what may be seen of a text. No secret is in
    the answer: it names files and lines.
    """
    named = [path for path in files if redacted(path) != path]
    if named:
        told = listed([redacted(path) for path in named])
        return Unreadable("looks_like_a_secret", f"the name of a file looks like one: {told}")
    odd = [why for path, new in files.items() if (why := _odd(path, original(path), new))]
    if odd:
        return Unreadable("unreadable", listed(odd))
    places = [
        f"{path}:{number}"
        for path, new in files.items()
        for number in _hidden(original(path), new, redacted)
    ]
    if places:
        told = "they look like a credential and would be shown as REDACTED; write them otherwise"
        return Unreadable(
            "looks_like_a_secret", f"these lines cannot be read: {told}: {listed(places)}"
        )
    return None


def _odd(path: str, old: bytes | None, new: bytes | None) -> str | None:
    """Say why a file is no text that a reader and an interpreter take for the same."""
    if b"\0" in (old or b"") or b"\0" in (new or b""):
        return f"{path} is binary"
    try:
        text = (new or b"").decode()
    except UnicodeDecodeError:
        return f"{path} is not UTF-8"
    for line in text.replace("\r", "\n").split("\n", _COOKIE_LINES)[:_COOKIE_LINES]:
        cookie = _COOKIE.match(line)
        if cookie and cookie[1].lower().replace("_", "-") not in SOURCE_ENCODINGS:
            return f"{path} declares another encoding than UTF-8"
    return None


def _hidden(old: bytes | None, new: bytes | None, redacted: Callable[[str], str]) -> list[int]:
    """Return the numbers of lines that cannot be read and were not there before."""
    if new is None:
        return []
    there = Counter(
        line for _, line in hidden_lines((old or b"").decode("utf-8", "replace"), redacted)
    )
    found: list[int] = []
    for number, line in hidden_lines(new.decode(), redacted):
        there[line] -= 1
        if there[line] < 0:
            found.append(number)
    return found
