"""Places of this machine taken out of text that leaves it: to a service, a memory, a pull request.

What fails says where: a server's log, an error of git, a program at work. Where a home or a cache
lies, and so who runs this, is nobody else's business, and helps no author.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from layers.programs import cache_root

_OF_THE_SYSTEM = frozenset({"/", "/usr", "/usr/local", "/opt", "/home", "/tmp", "/var", "/nix"})  # noqa: S108
_START, _END = r"(?<![\w.~-])", r"(?![\w.-])"


def without_places(text: str, more: Mapping[Path, str] | None = None) -> str:
    """Return a text with folders of this machine named by what they are; `more` are others.

    The result comes back as it is.
    """
    return _replaced(
        text, {**_places(), **{str(path): name for path, name in (more or {}).items()}}
    )


def _places() -> dict[str, str]:
    home = os.path.expanduser("~")  # noqa: PTH111  # it never fails
    return {
        home: "HOME",
        sys.base_prefix: "PYTHON",
        sys.prefix: "PYTHON",
        str(cache_root()): "CACHE",
    }


def _replaced(text: str, places: Mapping[str, str]) -> str:
    for place in sorted(places, key=len, reverse=True):  # what lies in another one comes first
        if place in _OF_THE_SYSTEM or not place.startswith("/"):
            continue
        text = re.sub(f"{_START}{re.escape(place)}{_END}", places[place], text)
    return text
