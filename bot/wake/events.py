"""What GitHub told us, as the few fields that decide anything.

A payload comes from outside even where its signature is right: anybody can write a comment, name
a branch or a tag. Fields that we use are checked strictly; the rest is not looked at.
"""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from bot.wake.jobs import REPOSITORY, Id, Login, RepositoryName, Sha

EventKind = Literal[
    "release", "push", "pull_request", "comment", "schedule", "dispatch", "installation", "ping"
]

MOST_BODY = 65_536  # characters of a comment, GitHub's own limit
MOST_PATHS = 3_000  # of one push
MOST_PATH = 1_024  # characters of a path; longer ones are left out
MOST_REPOSITORIES = 2_000  # of one installation; others are met with their first event
NO_COMMIT = "0" * 40  # what a push says where a branch was deleted


@dataclass(frozen=True, slots=True)
class Event:
    """One event. What a comment commands is read by `bot.wake.commands`."""

    kind: EventKind
    action: str  # "published", "created", "synchronize", ...; "" where there is none
    repository: str  # "owner/name"; "" for ping and installation
    installation: int | None
    sender: str  # login; "" where nobody is named, as in a schedule
    sender_is_bot: bool
    number: int | None = None  # of a pull request or an issue
    is_pull: bool = False  # of a comment: it stands on a pull request
    ref: str | None = None  # push, dispatch: "refs/heads/main"; release: the tag
    sha: str | None = None  # push: the new commit, None where deleted; pull request: its head
    branch: str | None = None  # pull request: head branch
    head_repository: str | None = None  # pull request; None: the fork is gone
    base: str | None = None  # pull request: the branch it goes to
    merged: bool = False
    default_branch: str | None = None
    comment_id: int | None = None
    body: str = ""  # of a comment
    created_at: str | None = None  # ISO 8601 with its offset, of a comment or a release
    paths: tuple[str, ...] = ()  # push: files added, modified or removed, sorted
    added: tuple[str, ...] = ()  # push: files added, sorted
    repositories: tuple[str, ...] = ()  # installation: those it was extended to


class Unusable(ValueError):
    """The payload is not what its event name says; the message names the field, no content."""


def tick(repository: str, installation: int | None = None) -> Event:
    """Return the event that time passing is for one repository."""
    return Event("schedule", "", repository, installation, sender="", sender_is_bot=False)


def parse(name: str, payload: object) -> Event | None:
    """Return the event, or None where fvec does not use events of that name.

    `name` is the header X-GitHub-Event, or GITHUB_EVENT_NAME in a workflow. A body over
    `MOST_BODY` characters, paths over `MOST_PATHS` and repositories over `MOST_REPOSITORIES` are
    cut. In a workflow a push names no paths. Raises `Unusable`.
    """
    model = _MODELS.get(name)
    if model is None:
        return None
    try:
        return model.model_validate(payload).event()
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or "payload"  # names and indices of ours alone
        raise Unusable(f"{name}: {field}: {first['type']}") from None


def _plain(text: str) -> str:
    """Refuse control characters: no name on GitHub has one."""
    if any(unicodedata.category(character) == "Cc" for character in text):
        raise ValueError("control character")
    return text


def _moment(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("no offset")
    return text


Name = Annotated[str, Field(max_length=1_024), AfterValidator(_plain)]
Moment = Annotated[str, Field(max_length=40), AfterValidator(_moment)]


class _Part(BaseModel):
    """A part of a payload: the fields that we use, strictly; others are ignored."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", regex_engine="python-re")


class _User(_Part):
    login: Login
    type: Name = ""

    @property
    def is_bot(self) -> bool:
        return self.type == "Bot" or self.login.endswith("[bot]")


class _Repository(_Part):
    full_name: RepositoryName
    default_branch: Name | None = None


class _Installation(_Part):
    id: Id


class _Payload(_Part, ABC):
    action: Name = ""
    installation: _Installation | None = None
    sender: _User | None = None

    @abstractmethod
    def event(self) -> Event:
        """Return what is used of the payload."""

    def _of(self, kind: EventKind, repository: _Repository | None = None) -> Event:
        sender = self.sender
        return Event(
            kind=kind,
            action=self.action,
            repository=repository.full_name if repository else "",
            installation=self.installation.id if self.installation else None,
            sender=sender.login if sender else "",
            sender_is_bot=sender is not None and sender.is_bot,
            default_branch=repository.default_branch if repository else None,
        )


class _Ping(_Payload):
    def event(self) -> Event:
        return self._of("ping")


def _nameable(found: object) -> object:
    """Leave out repositories whose names no folder, URL or argument may be made of: `-serve`.

    The others of the same installation are not to wait for one of them.
    """
    if not isinstance(found, list):
        return found
    return [one for one in found if not _is_odd(one)]


def _is_odd(one: object) -> bool:
    name = one.get("full_name") if isinstance(one, dict) else None
    return isinstance(name, str) and not re.match(REPOSITORY, name)


Repositories = Annotated[list[_Repository], BeforeValidator(_nameable)]


class _Installed(_Payload):
    installation: _Installation
    repositories: Repositories = Field(default=[])
    repositories_added: Repositories = Field(default=[])

    def event(self) -> Event:
        named = [*self.repositories, *self.repositories_added][:MOST_REPOSITORIES]
        names = tuple(repository.full_name for repository in named)
        return replace(self._of("installation"), repositories=names)


class _Schedule(_Payload):
    repository: _Repository | None = None

    def event(self) -> Event:
        return self._of("schedule", self.repository)


class _InRepository(_Payload):
    repository: _Repository
    sender: _User


class _Dispatch(_InRepository):
    ref: Name | None = None
    branch: Name | None = None  # what `repository_dispatch` has in place of a ref

    def event(self) -> Event:
        ref = self.ref or (f"refs/heads/{self.branch}" if self.branch else None)
        return replace(self._of("dispatch", self.repository), ref=ref)


class _ReleaseData(_Part):
    tag_name: Name
    created_at: Moment | None = None
    published_at: Moment | None = None


class _Release(_InRepository):
    action: Name
    release: _ReleaseData

    def event(self) -> Event:
        release = self.release
        return replace(
            self._of("release", self.repository),
            ref=release.tag_name,
            created_at=release.published_at or release.created_at,
        )


class _Commit(_Part):
    added: list[str] = Field(default=[])
    modified: list[str] = Field(default=[])
    removed: list[str] = Field(default=[])


class _Push(_InRepository):
    ref: Name
    after: Sha
    commits: list[_Commit] = Field(default=[])

    def event(self) -> Event:
        deleted = self.after == NO_COMMIT
        added = [path for commit in self.commits for path in commit.added]
        other = [path for commit in self.commits for path in (*commit.modified, *commit.removed)]
        return replace(
            self._of("push", self.repository),
            action="deleted" if deleted else "",
            ref=self.ref,
            sha=None if deleted else self.after,
            paths=_paths([*added, *other]),
            added=_paths(added),
        )


class _Head(_Part):
    ref: Name
    sha: Sha
    repo: _Repository | None = None


class _Base(_Part):
    ref: Name


class _Pull(_Part):
    head: _Head
    base: _Base
    merged: bool | None = None


class _PullRequest(_InRepository):
    action: Name
    number: Id
    pull_request: _Pull

    def event(self) -> Event:
        head = self.pull_request.head
        return replace(
            self._of("pull_request", self.repository),
            number=self.number,
            is_pull=True,
            sha=head.sha,
            branch=head.ref,
            head_repository=head.repo.full_name if head.repo else None,
            base=self.pull_request.base.ref,
            merged=bool(self.pull_request.merged),
        )


class _Reference(_Part):
    """Of an issue that is a pull request; that it is there is what counts."""


class _Issue(_Part):
    number: Id
    pull_request: _Reference | None = None


class _CommentData(_Part):
    id: Id
    body: str
    created_at: Moment


class _Comment(_InRepository):
    action: Name
    issue: _Issue
    comment: _CommentData

    def event(self) -> Event:
        return replace(
            self._of("comment", self.repository),
            number=self.issue.number,
            is_pull=self.issue.pull_request is not None,
            comment_id=self.comment.id,
            body=self.comment.body[:MOST_BODY],
            created_at=self.comment.created_at,
        )


_MODELS: dict[str, type[_Payload]] = {
    "release": _Release,
    "push": _Push,
    "pull_request": _PullRequest,
    "issue_comment": _Comment,
    "schedule": _Schedule,
    "workflow_dispatch": _Dispatch,
    "repository_dispatch": _Dispatch,
    "installation": _Installed,
    "installation_repositories": _Installed,
    "ping": _Ping,
}


def _paths(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({name for name in names if 0 < len(name) <= MOST_PATH}))[:MOST_PATHS]
