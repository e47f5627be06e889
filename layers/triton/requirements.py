"""Requirements files as pip may get them: packages by name, and nothing else.

A requirements file comes with the repository, and pip runs outside the sandbox. A line could name
another index, a URL or a file, or have pip put the user's environment variables into an address;
so each line is parsed here, and what is installed is written anew from what was understood.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from layers.errors import InvalidInput, Location

HINT = "list the packages themselves, pinned: NAME==VERSION"
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Refused:
    """One line that pip does not get."""

    number: int  # counts from 1
    text: str
    why: str

    def __str__(self) -> str:
        """Return the line's beginning and the reason, on one line."""
        return f"{self.text[:_SHOWN]!r} {self.why}"


def read(path: Path) -> str:
    """Return the text of a requirements file; InvalidInput, with the first line that is refused.

    The message goes on with all others.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"cannot be read: {error}", at=Location(path), hint="see stack.requirements"
        ) from error
    lines = refused(text)
    if lines:
        first, *more = lines
        others = "".join(f"\n{Location(path, line.number, 1)}: {line}" for line in more)
        raise InvalidInput(f"{first}{others}", at=Location(path, first.number, 1), hint=HINT)
    return text


def refused(text: str) -> list[Refused]:
    """Return the lines of a requirements file that are more than a package by name."""
    return [line for line in _lines(text) if isinstance(line, Refused)]


def plain(text: str) -> str:
    """Return the requirements of a text without refused lines, one a line, as packaging writes them."""
    return "".join(f"{line}\n" for line in _lines(text) if isinstance(line, Requirement))


def _lines(text: str) -> Iterator[Requirement | Refused]:
    """Yield what each line asks for, blank ones and comments left out."""
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        asked = line.strip()
        if asked.startswith("#") or not asked:
            continue
        found = _parsed(asked.partition(" #")[0].partition("\t#")[0].strip())
        yield Refused(number, asked, found) if isinstance(found, str) else found


def _parsed(asked: str) -> Requirement | str:
    """Return a requirement, or why the line is none."""
    if asked.startswith("-"):
        return "is an option of pip; it may refer to another file or index"
    if "${" in asked:
        return "names a variable of the environment, which pip would fill in"
    if asked.endswith("\\") or " --" in asked:
        return "has options or goes on in the next line"
    try:
        requirement = Requirement(asked)
    except InvalidRequirement:
        return "is no package by its name; it may refer to another file or address"
    return "refers to another file or address" if requirement.url else requirement
