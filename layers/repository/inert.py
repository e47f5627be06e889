"""What a forge acts on in plain text, and text in which it finds nothing of that. Pure.

One list for all: for what is rendered (`bot.render.text`), for commits as they are made
(`layers.repository.git`) and as they are pushed (`bot.github.commits`).
"""

from __future__ import annotations

import re
import unicodedata

BREAK = "\N{ZERO WIDTH SPACE}"  # ends what a forge would act on, and is not seen
# People; issues and pull requests, which a keyword in front closes; addresses.
REFERENCE = r"@(?=\w)|#(?=\d)|GH-(?=\d)|:(?=//)|www(?=\.)"
# What keeps a workflow from running: [skip ci] and its kin, ***NO_CI***, a trailer.
SKIP = (
    r"\[(?=\s*no\b|[^\[\]\n]{0,40}\b(?:skip|ci|actions)\b)"
    r"|\bNO_(?=CI\b)|^(?:skip|request)-checks(?=\s*:)"
)
SKIPS = re.compile(SKIP, re.IGNORECASE | re.MULTILINE)
_ACTED_ON = re.compile(f"{REFERENCE}|{SKIP}", re.IGNORECASE | re.MULTILINE)
_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Zl", "Zp"})
# Characters that show nothing and yet are letters or marks to Unicode.
_FILLERS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def inert(message: str) -> str:
    """Return a message in which nothing mentions a person, closes an issue or skips a workflow.

    Nor does anything stand in it that nobody sees, but for the breaks that this takes. What is
    inert comes back as it is.
    """
    return broken(_ACTED_ON, seen(message))


def broken(acted_on: re.Pattern[str], text: str) -> str:
    """Return the text with a break behind every match."""
    return acted_on.sub(lambda hit: hit[0] + BREAK, text)


def seen(text: str) -> str:
    """Return what people see of a text: no control, format or unassigned characters, no fillers.

    Line feeds stay, tabs become spaces, lone surrogates become the replacement character.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").expandtabs(4)
    kept = (
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) == "Cs" else c
        for c in text
        if c == "\n" or unicodedata.category(c) not in _UNSEEN
    )
    return _FILLERS.sub("", "".join(kept))
