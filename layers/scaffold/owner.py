"""Who may answer for what the bot writes: the owners of everything, as CODEOWNERS has them."""

from __future__ import annotations

import re

from layers.errors import InvalidInput
from layers.scaffold.checkout import Checkout
from layers.scaffold.entry import Certainty, Choice

PLACES = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")  # the first one counts
_OWNER = re.compile(r"@[A-Za-z0-9][A-Za-z0-9-]{0,38}(?:/[A-Za-z0-9._-]{1,100})?")
_NOBODY = "there is no CODEOWNERS"


def find(tree: Checkout) -> Choice:
    """Return the person or team that owns everything; an empty name where nothing says who."""
    place = next((place for place in PLACES if tree.has(place)), None)
    if place is None:
        return Choice("", Certainty.UNKNOWN, _NOBODY)
    try:
        owner = _of_everything(tree.text(place))
    except InvalidInput as error:
        return Choice("", Certainty.UNKNOWN, f"{place} {error.message}")
    if not owner:
        return Choice("", Certainty.UNKNOWN, f"{place} names no owner of everything")
    return Choice(owner, Certainty.LIKELY, f"{place} names them for everything")


def _of_everything(text: str) -> str:
    """Return the first owner in the last rule for all files."""
    found = ""
    for line in text.splitlines():
        pattern, *owners = line.partition("#")[0].split() or [""]
        if pattern == "*":
            found = next((name for name in owners if _OWNER.fullmatch(name)), "")
    return found
