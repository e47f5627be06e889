"""What the fake remembers apart from git: people, issues, pull requests, comments, checks, releases."""

from __future__ import annotations

import copy
import itertools
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from tests.github.git_store import BareRepository, Change

RANKS = ("none", "read", "triage", "write", "maintain", "admin")
ALL_GRANTS = {
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
}
_COUNTERS = ("ids", "numbers")
_NO_STATE = ("git", "lock", "now")


@dataclass(slots=True)
class User:
    """An account and what it may do in the repository."""

    id: int
    login: str
    permission: str
    kind: Literal["User", "Bot"] = "User"


@dataclass(frozen=True, slots=True)
class Token:
    """Who a token speaks for; `grants` of an App's token alone."""

    login: str
    grants: dict[str, str] | None = None
    expires_at: datetime | None = None


@dataclass(slots=True)
class Label:
    """A label of the repository."""

    id: int
    name: str
    color: str = "ededed"
    description: str | None = None


@dataclass(slots=True)
class Issue:
    """An issue, or the half of a pull request that is one."""

    id: int
    number: int
    title: str
    body: str
    login: str
    created_at: datetime
    updated_at: datetime
    state: Literal["open", "closed"] = "open"
    closed_at: datetime | None = None
    labels: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Pull:
    """The other half of a pull request."""

    issue: Issue
    branch: str
    base: str
    head_repository: str  # "owner/name"; a fork's has no refs/heads here, only refs/pull/N/head
    head_sha: str
    base_sha: str
    draft: bool = False
    merged_at: datetime | None = None
    merged_by: str | None = None
    merge_sha: str | None = None

    @property
    def number(self) -> int:
        """Return the number it shares with its issue."""
        return self.issue.number

    @property
    def is_open(self) -> bool:
        """Say whether it is neither closed nor merged."""
        return self.issue.state == "open"


@dataclass(slots=True)
class Reaction:
    """Somebody's reaction to a comment."""

    id: int
    login: str
    content: str
    created_at: datetime


@dataclass(slots=True)
class Comment:
    """A comment on an issue or pull request."""

    id: int
    number: int
    body: str
    login: str
    created_at: datetime
    updated_at: datetime
    reactions: list[Reaction] = field(default_factory=list)


@dataclass(slots=True)
class CheckRun:
    """A check run of a commit."""

    id: int
    head_sha: str
    name: str
    started_at: datetime
    login: str  # the App that made it: nobody else may change it
    external_id: str = ""
    details_url: str | None = None
    status: str = "queued"
    conclusion: str | None = None
    completed_at: datetime | None = None
    output: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Release:
    """A published release."""

    id: int
    tag: str
    target: str
    login: str
    created_at: datetime


@dataclass(slots=True)
class Delivery:
    """A webhook delivery that was tried."""

    id: int
    guid: str
    event: str
    payload: dict[str, Any]
    body: bytes
    delivered_at: datetime
    redelivery: bool
    status_code: int


class World:
    """The state of one repository on the fake."""

    def __init__(self, owner: str, name: str, git: BareRepository) -> None:
        self.owner = owner
        self.name = name
        self.git = git
        self.default_branch = "main"
        self.closed: Literal["", "archived", "disabled"] = ""  # takes no write
        self.lock = threading.RLock()
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.ids: Iterator[int] = itertools.count(1001)
        self.numbers: Iterator[int] = itertools.count(1)
        self.users: dict[str, User] = {}
        self.tokens: dict[str, Token] = {}
        self.labels: dict[str, Label] = {}
        self.issues: dict[int, Issue] = {}
        self.pulls: dict[int, Pull] = {}
        self.comments: dict[int, Comment] = {}
        self.checks: dict[int, CheckRun] = {}
        self.releases: list[Release] = []
        self.deliveries: list[Delivery] = []
        self.most_listed = 100_000  # entries of a tree, as at GitHub

    @property
    def full_name(self) -> str:
        """Return "owner/name"."""
        return f"{self.owner}/{self.name}"

    def second(self) -> datetime:
        """Return the time, as GitHub tells it: in whole seconds."""
        return self.now().replace(microsecond=0)

    def noted(self) -> dict[str, Any]:
        """Return a copy of all that is remembered here, for `put_back`."""
        state = {name: value for name, value in vars(self).items() if name not in _NO_STATE}
        noted = copy.deepcopy({**state, **{name: next(state[name]) for name in _COUNTERS}})
        self.put_back(noted)  # what the counters gave is still the next
        return noted

    def put_back(self, noted: dict[str, Any]) -> None:
        """Remember what was noted, and nothing else."""
        for name, value in copy.deepcopy(noted).items():
            setattr(self, name, itertools.count(value) if name in _COUNTERS else value)

    def add_user(self, login: str, permission: str, kind: Literal["User", "Bot"] = "User") -> User:
        """Add an account, or change what it may do."""
        if permission not in RANKS:
            raise ValueError(f"no permission of GitHub: {permission}")
        known = self.users.get(login)
        user = User(known.id if known else next(self.ids), login, permission, kind)
        self.users[login] = user
        return user

    def person(self, login: str) -> User:
        """Return an account; a login that was never seen becomes one that may read."""
        return self.users.get(login) or self.add_user(login, "read")

    def add_token(
        self, login: str, grants: dict[str, str] | None = None, expires_at: datetime | None = None
    ) -> str:
        """Make a token of `login`; its form is no real token's, so that no scanner takes it for one."""
        token = f"fake-{'app' if grants else 'personal'}-{secrets.token_hex(12)}"
        self.tokens[token] = Token(login, grants, expires_at)
        return token

    def add_label(self, name: str, color: str = "ededed", description: str | None = None) -> Label:
        """Add a label to the repository, unless it is there (names are compared without case)."""
        return self.labels.setdefault(name.lower(), Label(next(self.ids), name, color, description))

    def add_issue(self, title: str, body: str, login: str) -> Issue:
        """Open an issue under the next number."""
        now = self.second()
        issue = Issue(next(self.ids), next(self.numbers), title, body, login, now, now)
        self.issues[issue.number] = issue
        return issue

    def add_comment(
        self, number: int, body: str, login: str, created_at: datetime | None = None
    ) -> Comment:
        """Comment on an issue or pull request."""
        when = created_at or self.second()
        comment = Comment(next(self.ids), number, body, login, when, when)
        self.comments[comment.id] = comment
        return comment

    def add_pull(
        self,
        issue: Issue,
        branch: str,
        base: str,
        head_repository: str,
        head_sha: str,
        *,
        draft: bool,
    ) -> Pull:
        """Make a pull request of an issue."""
        base_sha = self.git.resolve(base)
        if base_sha is None:
            raise ValueError(f"no branch {base}")
        pull = Pull(issue, branch, base, head_repository, head_sha, base_sha, draft=draft)
        self.pulls[pull.number] = pull
        self.git.update_ref(f"refs/pull/{pull.number}/head", head_sha)
        return pull

    def sync(self) -> None:
        """Let open pull requests follow their branches; one whose branch is gone is closed."""
        heads = self.git.refs()
        for pull in self.pulls.values():
            if not pull.is_open or pull.head_repository != self.full_name:
                continue
            head = heads.get(f"refs/heads/{pull.branch}")
            if head is None:
                self.close(pull.issue)
            elif head != pull.head_sha:
                self.move_head(pull, head)

    def move_head(self, pull: Pull, head: str) -> None:
        """Set the head of a pull request after a push."""
        pull.head_sha = head
        pull.base_sha = self.git.resolve(pull.base) or pull.base_sha
        pull.issue.updated_at = self.second()
        self.git.update_ref(f"refs/pull/{pull.number}/head", head)

    def close(self, issue: Issue) -> None:
        """Close an issue or pull request."""
        issue.state, issue.closed_at, issue.updated_at = "closed", self.second(), self.second()

    def reopen(self, issue: Issue) -> None:
        """Open it again."""
        issue.state, issue.closed_at, issue.updated_at = "open", None, self.second()

    def merge(self, pull: Pull, login: str, sha: str) -> None:
        """Note that a pull request was merged as `sha`."""
        self.close(pull.issue)
        pull.merged_at, pull.merged_by, pull.merge_sha = self.second(), login, sha

    def changes_of(self, pull: Pull) -> list[Change]:
        """Return the files that a pull request changes."""
        fork_point = self.git.merge_base(pull.base_sha, pull.head_sha)
        return self.git.changes(fork_point, pull.head_sha)

    def commits_of(self, pull: Pull) -> list[str]:
        """Return the commits of a pull request, oldest first."""
        return self.git.between(pull.base_sha, pull.head_sha)
