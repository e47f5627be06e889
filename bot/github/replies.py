"""GitHub's answers: checked on the way in, and as data of our own on the way out.

Fields that are not used are not read. Whatever is in a text (titles, bodies, names of branches)
was written by anybody: it is data to compare and to show with care.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, RootModel

Sha = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
Text = Annotated[str, Field(max_length=262_144)]
Name = Annotated[str, Field(min_length=1, max_length=255)]
Number = Annotated[int, Field(ge=1, lt=2**63)]
Size = Annotated[int, Field(ge=0)]
State = Literal["open", "closed"]

CheckStatus = Literal["queued", "in_progress", "completed"]
CheckConclusion = Literal[
    "success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required"
]
GHOST = "ghost"  # whom GitHub names where an account is gone


@dataclass(frozen=True, slots=True)
class Pull:
    """A pull request; `head_repository` is None where the fork is gone, `url` is for people."""

    number: int
    url: str
    state: State
    merged: bool
    draft: bool
    branch: str
    head_sha: str
    head_repository: str | None
    base: str
    base_sha: str
    title: str
    body: str
    author: str
    labels: tuple[str, ...]
    merged_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PublishedRelease:
    """A release that everybody can see."""

    tag: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on an issue or pull request."""

    id: int
    author: str
    body: str
    url: str


@dataclass(frozen=True, slots=True)
class CheckRun:
    """A check run; `external_id` is the name that we gave it, `details_url` the page of it."""

    id: int
    name: str
    head_sha: str
    external_id: str
    status: str
    conclusion: str | None
    url: str
    details_url: str = ""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file in a tree: its mode as git writes it, and its blob."""

    path: str
    mode: str
    sha: str
    size_bytes: int


class Reply(BaseModel):
    """Part of an answer of GitHub; the rest of it is ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class IgnoredReply(Reply):
    """An answer of which nothing is used."""


class UserReply(Reply):
    """An account."""

    login: Name


class AppReply(Reply):
    """A GitHub App."""

    slug: Name


class NumberedReply(Reply):
    """Whatever has an id: an installation."""

    id: Number


class TokenReply(Reply):
    """An installation token, and when it ends."""

    token: Annotated[str, Field(pattern=r"^[\x21-\x7e]{1,4096}$", repr=False)]
    expires_at: Annotated[AwareDatetime, Field(strict=False)]

    def is_spent(self, now: datetime, margin_s: float) -> bool:
        """Say whether it has ended, or will within `margin_s`."""
        return (self.expires_at - now).total_seconds() < margin_s


class RepositoryReply(Reply):
    """A repository; one that is archived or disabled takes no write."""

    full_name: str = ""
    default_branch: Name
    archived: bool = False
    disabled: bool = False


class PermissionReply(Reply):
    """What a person may do; `role_name` may be a role of the organisation's own."""

    permission: Name
    role_name: Name | None = None


class ObjectReply(Reply):
    """Whatever is named by a sha alone."""

    sha: Sha


class RefReply(Reply):
    """A branch, and the commit that it is at."""

    object: ObjectReply


class CommitReply(Reply):
    """A commit as git has it."""

    sha: Sha
    tree: ObjectReply


class FileReply(Reply):
    """What the contents API says of one path; `content` is empty from 1 MB on."""

    type: Name
    size: Size
    sha: Sha
    encoding: str = ""
    content: str = ""


class ContentsReply(RootModel[FileReply | list[IgnoredReply]]):
    """A path's contents: a file or a folder's list."""


class BlobReply(Reply):
    """The bytes of a file."""

    encoding: Literal["base64"]
    content: str


class EntryReply(Reply):
    """An entry of a tree."""

    path: str
    mode: str
    type: Name
    sha: Sha
    size: Size = 0


class TreeReply(Reply):
    """A tree with all that is below it, unless GitHub cut it off."""

    sha: Sha
    tree: list[EntryReply]
    truncated: bool = False


class ReleaseReply(Reply):
    """A release; a draft has no moment of publication."""

    tag_name: Name
    draft: bool = False
    published_at: Annotated[AwareDatetime, Field(strict=False)] | None = None


class LabelReply(Reply):
    """A label of an issue or pull request."""

    name: Name


class HeadRepositoryReply(Reply):
    """The repository of a branch."""

    full_name: Name


class SideReply(Reply):
    """Head or base of a pull request."""

    ref: Name
    sha: Sha
    repo: HeadRepositoryReply | None = None


class PullReply(Reply):
    """A pull request, as lists and single answers have it."""

    number: Number
    html_url: Text
    state: State
    merged_at: Annotated[AwareDatetime, Field(strict=False)] | None = None
    draft: bool = False
    title: Text
    body: Text | None = None
    user: UserReply | None = None
    labels: list[LabelReply]
    head: SideReply
    base: SideReply

    def data(self) -> Pull:
        """Return it as data of ours."""
        return Pull(
            number=self.number,
            url=self.html_url,
            state=self.state,
            merged=self.merged_at is not None,
            draft=self.draft,
            branch=self.head.ref,
            head_sha=self.head.sha,
            head_repository=self.head.repo.full_name if self.head.repo else None,
            base=self.base.ref,
            base_sha=self.base.sha,
            title=self.title,
            body=self.body or "",
            author=_login(self.user),
            labels=tuple(label.name for label in self.labels),
            merged_at=self.merged_at,
        )


class IssueReply(Reply):
    """An issue; `pull_request` is there where it is the other half of one."""

    number: Number
    state: State
    title: Text
    body: Text | None = None
    user: UserReply | None = None
    labels: list[LabelReply | str]
    pull_request: dict[str, object] | None = None

    @property
    def author(self) -> str:
        """Return the login of whoever opened it."""
        return _login(self.user)


class CommentReply(Reply):
    """A comment on an issue or pull request."""

    id: Number
    html_url: Text
    body: Text | None = None
    user: UserReply | None = None

    def data(self) -> Comment:
        """Return it as data of ours."""
        return Comment(
            id=self.id, author=_login(self.user), body=self.body or "", url=self.html_url
        )


class CheckAppReply(Reply):
    """The App that made a check run."""

    slug: str = ""


class CheckOutputReply(Reply):
    """What a check run says."""

    title: str | None = None
    summary: str | None = None
    text: str | None = None


class CheckRunReply(Reply):
    """A check run of one commit."""

    id: Number
    name: Name
    head_sha: Sha
    external_id: str | None = None
    status: str
    conclusion: str | None = None
    html_url: Text | None = None
    details_url: Text | None = None
    output: CheckOutputReply
    app: CheckAppReply | None = None

    def data(self) -> CheckRun:
        """Return it as data of ours."""
        return CheckRun(
            id=self.id,
            name=self.name,
            head_sha=self.head_sha,
            external_id=self.external_id or "",
            status=self.status,
            conclusion=self.conclusion,
            url=self.html_url or "",
            details_url=self.details_url or "",
        )


def _login(user: UserReply | None) -> str:
    return user.login if user else GHOST
