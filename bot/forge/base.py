"""What a forge is: a place where a pull request can be opened and kept up to date."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from layers.errors import InvalidInput

# What git accepts of the names that we make: no leading dash or dot, no "..", no "@{".
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")
_ATTACHED = re.compile(r"(?:plots/)?[a-z0-9][a-z0-9._-]{0,79}")


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
            if not _NAME.fullmatch(name) or ".." in name or name.endswith((".lock", "/", ".")):
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
