"""The data of one job: what a decision asks for, as the store keeps it and a worker reads it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from layers.base import ChangeClass, LayerName

JobKind = Literal["analyse", "rerun", "judge", "recreate", "help", "onboard", "freshen"]
# Kinds that may measure: they load a machine for minutes, so policy and quiet hours hold for them.
MEASURING: frozenset[JobKind] = frozenset({"analyse", "rerun", "judge", "recreate"})

# Folders, URLs and argument lists are made of these: no dots alone, no leading dash.
REPOSITORY = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}/(?!\.{1,2}\Z)[A-Za-z0-9._][A-Za-z0-9._-]{0,99}\Z"
LOGIN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}(\[bot\])?\Z"
SHA = r"^[0-9a-f]{40}\Z"
MOST_WHY = 1000
_DIGEST, _PART = 20, 8  # digits in a key: of what the job is about, and of its layers

RepositoryName = Annotated[str, Field(pattern=REPOSITORY)]
Login = Annotated[str, Field(pattern=LOGIN)]
Sha = Annotated[str, Field(pattern=SHA)]
Id = Annotated[int, Field(ge=1, lt=2**63)]  # what SQLite's integers hold


class JobSpec(BaseModel):
    """One job. `sha` is the commit it is about, pinned when the decision was taken.

    `layers` limits an analysis to some layers, empty means those of the manifest; `change_class`
    is that of `/fvec judge CLASS`; `comment_id` and `asked_by` name the comment that asked.
    Raises pydantic's ValidationError for anything else, whatever it was read from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", regex_engine="python-re")

    kind: JobKind
    repository: RepositoryName
    installation: Id | None = None
    sha: Sha | None = None
    number: Id | None = None
    layers: tuple[LayerName, ...] = Field(default=(), max_length=len(LayerName))
    change_class: ChangeClass | None = None
    comment_id: Id | None = None
    asked_by: Login | None = None
    why: str = Field(default="", max_length=MOST_WHY)

    @property
    def subject(self) -> str:
        """Return what the job is about, whatever the commit: the start of its key."""
        return f"{self.kind}-{_digest(self.repository.lower(), self.number)}-"

    @property
    def key(self) -> str:
        """Return what makes two jobs the same work: kind, repository, number, commit, class, layers.

        Of letters, digits and dashes, at most 64 characters; unique while a job is live.
        """
        return self.subject + _digest(self.sha, self.change_class) + self._part

    @property
    def _part(self) -> str:
        """The end of the key of a job about some layers alone."""
        return f"-{_digest(*sorted(self.layers))[:_PART]}" if self.layers else ""

    def supersedes(self, live: Iterable[str]) -> tuple[str, ...]:
        """Return the keys of live jobs that this one replaces: of its subject, the last one asked for.

        A job about some layers replaces those about the same layers alone.
        """
        return tuple(
            key
            for key in self._of_subject(live)
            if key != self.key and (not self.layers or key.endswith(self._part))
        )

    def whole_among(self, live: Iterable[str]) -> bool:
        """Say whether a live job of the subject is about all layers, whatever its commit."""
        length = len(self.subject) + _DIGEST
        return any(len(key) == length for key in self._of_subject(live))

    def _of_subject(self, live: Iterable[str]) -> list[str]:
        return sorted(key for key in live if key.startswith(self.subject))


def _digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:_DIGEST]
