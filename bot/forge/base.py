"""What a forge is: a place where a pull request can be opened and kept up to date."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from layers.errors import InvalidInput

MOST_NAME = 200  # characters of a branch's name
# What git has in no name of a branch; and a dash first, which a program would read as an option.
_NOT_IN_A_NAME = re.compile(r"[\s~^:?*\[\\]|\.\.|//|@\{|^[-/]|[/.]$|(?:^|/)\.|\.lock(?:/|$)|^@$")
_ATTACHED = re.compile(r"(?:plots/)?[a-z0-9][a-z0-9._-]{0,79}")


def is_branch_name(name: str) -> bool:
    """Say whether git takes a name for a branch's, and neither option nor revision is read in it.

    What cannot be printed is none, either: a name is shown to people.
    """
    fits = 0 < len(name) <= MOST_NAME and name.isprintable()
    return fits and _NOT_IN_A_NAME.search(name) is None


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request as it should be; `files` are attached under their relative names."""

    branch: str
    base: str
    head_commit: str
    title: str
    body: str
    files: Mapping[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse names that could be read as an option, a path or a revision expression.

        Raises `InvalidInput`.
        """
        for what, name in (("branch", self.branch), ("base", self.base)):
            if not is_branch_name(name):
                raise InvalidInput(f"not a {what} name that a pull request can have: {name!r}")
        for name in self.files:
            if not _ATTACHED.fullmatch(name):
                raise InvalidInput(f"not a name for an attached file: {name!r}")


@dataclass(frozen=True, slots=True)
class Opened:
    """A pull request that exists; `body` is the path or URL where it is read."""

    number: int
    body: str


class Forge(Protocol):
    """Opens pull requests, each at most once per branch; never merges, never closes."""

    @property
    def name(self) -> Literal["local", "github"]:
        """Return what kind of forge it is."""

    def address_of(self, attached: str) -> str | None:
        """Return what a body calls an attached file by, or None where it cannot show it."""

    def open_pull_request(self, pull: PullRequest) -> Opened:
        """Create the pull request of `pull.branch`, or bring the existing one up to date."""
