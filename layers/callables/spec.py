"""Where a function lies: `module:function` or `FILE.py:function`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from layers.errors import InvalidInput

_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_HINT = "name it as module:function, importable from the current folder, or as FILE.py:function"


@dataclass(frozen=True, slots=True)
class Spec:
    """One function: its file or its module, and the folder that its imports start from."""

    text: str  # as it was given
    folder: Path
    file: Path | None
    module: str | None
    function: str

    @classmethod
    def parse(cls, text: str, base: Path, what: str) -> Spec:
        """Return the spec that `text` names, relative to `base`.

        Raises InvalidInput, naming `what` it is for, where it has no such form or no such file.
        """
        place, _, function = text.rpartition(":")
        if not _MODULE.fullmatch(function) or not place or "\0" in place:
            raise InvalidInput(f"{what}: {text!r} names no function", hint=_HINT)
        if place.endswith(".py"):
            file = (base / place).resolve()
            if not file.is_file():
                raise InvalidInput(f"{what}: there is no file {place}", hint=_HINT)
            return cls(text, _own_folder(file.parent, what), file, None, function)
        if not _MODULE.fullmatch(place):
            raise InvalidInput(f"{what}: {place!r} is no module", hint=_HINT)
        return cls(text, _own_folder(base.resolve(), what), None, place, function)

    def order(self, preload: Sequence[str]) -> dict[str, object]:
        """Return what the process of this function is told."""
        return {
            "folder": str(self.folder),
            "file": str(self.file) if self.file else "",
            "module": self.module or "",
            "function": self.function,
            "preload": list(preload),
        }


def _own_folder(folder: Path, what: str) -> Path:
    """Return the folder, which the candidate is going to see whole.

    Raises InvalidInput where that would show it the user's home.
    """
    home = Path.home().resolve()
    if home.is_relative_to(folder):
        raise InvalidInput(
            f"{what}: the folder of the function holds all of your home",
            hint="put the function in a folder of its own: the code under judgement sees all of it",
        )
    return folder
