"""Names in a sentence: a few of them, and how many more there are. Pure."""

from __future__ import annotations

from collections.abc import Sequence

MOST_NAMED = 8


def listed(names: Sequence[str], between: str = ", ") -> str:
    """Return the first names, and how many there are beside them."""
    more = len(names) - MOST_NAMED
    return between.join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
