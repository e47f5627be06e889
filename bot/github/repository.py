"""One repository at GitHub: pull requests, comments, labels, check runs, the dashboard.

Whatever is made is looked for first, and looked for again where GitHub broke before it answered:
a pull request by its branch, a comment or issue by its marker and our login, a check run by its
name and external id. So everything may be done again, and is there once.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from itertools import islice
from typing import Literal, NotRequired, TypedDict, TypeVar, Unpack

from bot.github.contents import Contents, check_branch_name, given
from bot.github.errors import Conflict, GitHubError, Locked, NotFound
from bot.github.replies import (
    CheckConclusion,
    CheckRun,
    CheckRunReply,
    CheckStatus,
    Comment,
    CommentReply,
    IssueReply,
    ObjectReply,
    PermissionReply,
    PublishedRelease,
    Pull,
    PullReply,
    ReleaseReply,
)
from bot.wake.jobs import LOGIN
from layers.errors import InvalidInput

MOST_BODY = 65_536  # characters of a body, as GitHub counts them
MOST_CHECK_TEXT = 65_535
MOST_TITLE = 256
MOST_LOOKED_AT = 100  # of what changed last, where there may be thousands
LABEL = "fvec"
STALE = "fvec:stale"  # the label of evidence whose base has moved
DASHBOARD = "dashboard"
ROLES = ("admin", "maintain", "write", "triage", "read", "none")

Reaction = Literal["+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"]
_KEY = re.compile(r"[a-z0-9][a-z0-9._/-]{0,99}")
Made = TypeVar("Made", Pull, Comment, IssueReply)


class CheckSaid(TypedDict):
    """What a check run says; `conclusion` of a completed one alone."""

    status: CheckStatus
    conclusion: CheckConclusion | None
    title: str
    summary: str
    text: NotRequired[str]
    details_url: NotRequired[str | None]


def marker(key: str) -> str:
    """Return the first line of what the bot keeps up to date; believed in our own texts alone."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"not a key of a marker: {key!r}")
    return f"<!-- fvec:{key} -->"


class Repository(Contents):
    """A repository that the bot works on as `login`.

    Every method raises `GitHubError`; `InvalidInput` for what GitHub would not take: a body over
    65,536 characters, a check's text over 65,535, a name that is none.
    """

    def pull(self, number: int) -> Pull:
        """Return a pull request as it is now."""
        return self._api.get(self._path("pulls", str(number)), PullReply).data()

    def pulls_of(self, branch: str) -> list[Pull]:
        """Return the pull requests from a branch of this repository, in any state, newest first."""
        owner = self.full_name.split("/")[0]
        asked = {"head": f"{owner}:{check_branch_name(branch)}", "state": "all"}
        replies = self._api.pages(
            self._path("pulls"), PullReply, {**asked, "sort": "created", "direction": "desc"}
        )
        return [
            pull
            for pull in (reply.data() for reply in replies)
            if pull.branch == branch
            and (pull.head_repository or "").lower() == self.full_name.lower()
        ]

    def open_pulls(self) -> list[Pull]:
        """Return the open pull requests that we opened, newest first."""
        replies = self._api.pages(self._path("pulls"), PullReply, {"state": "open"})
        return [pull for pull in (reply.data() for reply in replies) if self._is_ours(pull.author)]

    def closed_pulls(self) -> list[Pull]:
        """Return which of the pull requests that were closed or changed last are ours."""
        asked = {"state": "closed", "sort": "updated", "direction": "desc"}
        replies = self._api.pages(self._path("pulls"), PullReply, asked)
        last = (reply.data() for reply in islice(replies, MOST_LOOKED_AT))
        return [pull for pull in last if self._is_ours(pull.author)]

    def newest_release(self) -> PublishedRelease | None:
        """Return the release that was published last, prereleases included."""
        replies = self._api.pages(self._path("releases"), ReleaseReply)
        published = [
            PublishedRelease(reply.tag_name, reply.published_at)
            for reply in islice(replies, MOST_LOOKED_AT)
            if reply.published_at is not None and not reply.draft
        ]
        return max(published, key=lambda release: release.at, default=None)

    def release_sha(self, tag: str) -> str | None:
        """Return the commit of a release's tag, None where there is none."""
        try:
            found = self._api.find(self._path("commits/tags", tag), ObjectReply)
        except (Conflict, InvalidInput):  # no such commit; a name that is not asked for
            return None
        return found.sha if found is not None else None

    def create_pull(self, branch: str, base: str, title: str, body: str, *, draft: bool) -> Pull:
        """Return the open pull request of a branch of ours; it is opened where there is none.

        One that is there is returned as it is (`update_pull` changes it). A repository that has
        no drafts gets one that is ready for review.
        """
        if (there := self._open_pull(branch)) is not None:
            return there
        wanted = {
            "head": check_branch_name(branch),
            "base": check_branch_name(base),
            "title": _title(title),
            "body": _body(body),
            "draft": draft,
        }
        path = self._path("pulls")
        try:
            return self._api.repeat(
                lambda: self._own(self._api.send("POST", path, PullReply, wanted).data()),
                lambda: self._open_pull(branch),
            )
        except Conflict as error:
            if (there := self._open_pull(branch)) is not None:
                return there
            if draft and "draft pull requests are not supported" in error.message.lower():
                return self.create_pull(branch, base, title, body, draft=False)
            raise

    def update_pull(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        base: str | None = None,
        state: Literal["open", "closed"] | None = None,
    ) -> Pull:
        """Bring a pull request to what is given; nothing is written where nothing differs."""
        there = self.pull(number)
        wanted = given(
            title=_title(title) if title is not None else None,
            body=_body(body) if body is not None else None,
            base=check_branch_name(base) if base is not None else None,
            state=state,
        )
        changed = {k: v for k, v in wanted.items() if not _same(getattr(there, k), str(v))}
        if not changed:
            return there
        path = self._path("pulls", str(number))
        return self._api.repeat(lambda: self._api.send("PATCH", path, PullReply, changed)).data()

    def add_labels(self, number: int, names: Iterable[str]) -> None:
        """Put labels on an issue or pull request; those that it has stay, unknown ones are made."""
        labels = list(names)
        if labels:
            self._api.do("POST", self._path("issues", str(number), "labels"), {"labels": labels})

    def remove_label(self, number: int, name: str) -> None:
        """Take a label off an issue or pull request, if it has it."""
        with contextlib.suppress(NotFound):
            self._api.do("DELETE", self._path("issues", str(number), "labels", name))

    def comment_exists(self, number: int, key: str) -> Comment | None:
        """Return our comment with `marker(key)`, the oldest; a marker of anybody else is none."""
        replies = self._api.pages(self._path("issues", str(number), "comments"), CommentReply)
        comments = (reply.data() for reply in replies)
        return next((c for c in comments if self._is_marked(c.author, c.body, key)), None)

    def sticky_comment(self, number: int, key: str, body: str) -> Comment:
        """Return our one comment with `marker(key)`: made, edited, or left as it is if it is that.

        The marker becomes the first line where `body` does not start with it.
        """
        wanted = {"body": _body(_marked(key, body))}
        there = self.comment_exists(number, key)
        if there is None:
            path = self._path("issues", str(number), "comments")
            return self._api.repeat(
                lambda: self._own(self._api.send("POST", path, CommentReply, wanted).data()),
                lambda: self.comment_exists(number, key),
            )
        if _same(there.body, wanted["body"]):
            return there
        path = self._path("issues/comments", str(there.id))
        return self._api.repeat(lambda: self._api.send("PATCH", path, CommentReply, wanted)).data()

    def tell(self, number: int, key: str, body: str) -> None:
        """Have our one comment with `marker(key)` say `body`, as `sticky_comment` does.

        In a locked conversation nothing can be said, and that holds up nothing else: what is told
        in a comment is told by a check run, the dashboard or the other pull request, too.
        """
        with contextlib.suppress(Locked):
            self.sticky_comment(number, key, body)

    def react(self, comment_id: int, content: Reaction) -> None:
        """React to a comment; a reaction that is there already stays the only one.

        A locked conversation takes none, which is no error.
        """
        path = self._path("issues/comments", str(comment_id), "reactions")
        with contextlib.suppress(Locked):
            self._api.do("POST", path, {"content": content})

    def permission(self, login: str) -> str:
        """Return what somebody may do here, one of `ROLES`; of a custom role: what it is based on."""
        if not re.match(LOGIN, login):
            raise InvalidInput(f"not a login: {login[:100]!r}")
        found = self._api.find(self._path("collaborators", login, "permission"), PermissionReply)
        if found is None:
            return "none"
        role = found.role_name if found.role_name in ROLES else found.permission
        return role if role in ROLES else "none"

    def check_run(
        self, head_sha: str, name: str, external_id: str, **said: Unpack[CheckSaid]
    ) -> CheckRun:
        """Return our check run `name` with `external_id` on a commit: made, or brought up to date."""
        wanted = _check(name, external_id, said)
        there = self._check_run(head_sha, name, external_id)
        if there is None:
            path, body = self._path("check-runs"), {"head_sha": head_sha, **wanted}
            return self._api.repeat(
                lambda: self._api.send("POST", path, CheckRunReply, body),
                lambda: self._check_run(head_sha, name, external_id),
            ).data()
        if _says(there, wanted):
            return there.data()
        path = self._path("check-runs", str(there.id))
        return self._api.repeat(lambda: self._api.send("PATCH", path, CheckRunReply, wanted)).data()

    def check_run_exists(self, head_sha: str, name: str, external_id: str) -> CheckRun | None:
        """Return our check run `name` with `external_id` on a commit, the last one made."""
        there = self._check_run(head_sha, name, external_id)
        return there.data() if there is not None else None

    def dashboard(self, title: str, body: str) -> int:
        """Return the number of our one dashboard issue, which says `body` now.

        One that a person closed is kept up to date and stays closed: no other is opened. Where two
        processes opened one each the first stays, and the others are closed.
        """
        wanted = {"title": _title(title), "body": _body(_marked(DASHBOARD, body))}
        found = self._dashboards()
        there = next(iter(found), None)
        for spare in found[1:]:
            if spare.state == "open":
                self._api.do("PATCH", self._path("issues", str(spare.number)), {"state": "closed"})
        if there is None:
            path, made = self._path("issues"), {**wanted, "labels": [LABEL]}
            return self._api.repeat(
                lambda: self._own(self._api.send("POST", path, IssueReply, made)), self._dashboard
            ).number
        if not (_same(there.title, wanted["title"]) and _same(there.body, wanted["body"])):
            path = self._path("issues", str(there.number))
            self._api.do("PATCH", path, wanted)
        return there.number

    def _open_pull(self, branch: str) -> Pull | None:
        return next((pull for pull in self.pulls_of(branch) if pull.state == "open"), None)

    def _check_run(self, head_sha: str, name: str, external_id: str) -> CheckRunReply | None:
        replies = self._api.pages(
            self._path("commits", head_sha, "check-runs"),
            CheckRunReply,
            {"check_name": name, "filter": "all"},
            key="check_runs",
        )
        # Another App may give the same names, and GitHub lets nobody but its maker change a run.
        ours = [
            run
            for run in replies
            if (run.name, run.external_id) == (name, external_id)
            and run.app is not None
            and self._is_ours(f"{run.app.slug}[bot]")
        ]
        return max(ours, key=lambda run: run.id, default=None)

    def _dashboard(self) -> IssueReply | None:
        return next(iter(self._dashboards()), None)

    def _dashboards(self) -> list[IssueReply]:
        """Return our dashboard first, the oldest that is open, else the oldest; and any other."""
        asked = {"creator": self.login, "state": "all", "sort": "created", "direction": "desc"}
        ours = [
            issue
            for issue in self._api.pages(self._path("issues"), IssueReply, asked)
            if issue.pull_request is None
            and self._is_marked(issue.author, issue.body or "", DASHBOARD)
        ]
        return sorted(ours, key=lambda issue: (issue.state != "open", issue.number))

    def _own(self, made: Made) -> Made:
        """Return what was made; raises `GitHubError` where it is not ours, so not found again."""
        if not self._is_ours(made.author):
            raise GitHubError(
                f"what the bot wrote in {self.full_name} is by {made.author}, not {self.login}",
                hint=f"set FVEC_GITHUB_LOGIN={made.author}, or its own texts are strange to it",
            )
        return made

    def _is_ours(self, author: str) -> bool:
        return author.lower() == self.login.lower()

    def _is_marked(self, author: str, body: str, key: str) -> bool:
        return self._is_ours(author) and body.splitlines()[:1] == [marker(key)]


def _marked(key: str, body: str) -> str:
    first = marker(key)
    return body if body.splitlines()[:1] == [first] else f"{first}\n{body}"


def _body(body: str) -> str:
    return _at_most(MOST_BODY, "a body", body)


def _title(title: str) -> str:
    if not title.strip() or "\n" in title:
        raise InvalidInput("a title is one line with something in it")
    return _at_most(MOST_TITLE, "a title", title)


def _at_most(limit: int, what: str, text: str) -> str:
    if len(text) > limit:
        raise InvalidInput(f"{what} of {len(text):,} characters; GitHub takes at most {limit:,}")
    return text


def _same(there: str | None, wanted: str) -> bool:
    """Say whether two texts are the same to a reader; GitHub keeps line ends as it likes."""
    return (there or "").replace("\r\n", "\n").rstrip() == wanted.replace("\r\n", "\n").rstrip()


def _check(name: str, external_id: str, said: CheckSaid) -> dict[str, object]:
    if (said["status"] == "completed") != (said["conclusion"] is not None):
        raise ValueError("a check run has a conclusion when it is completed, and only then")
    output = {
        "title": _at_most(MOST_TITLE - 1, "a check's title", said["title"]),
        "summary": _at_most(MOST_CHECK_TEXT, "a check's summary", said["summary"]),
    }
    if text := said.get("text"):
        output["text"] = _at_most(MOST_CHECK_TEXT, "a check's text", text)
    return given(
        name=name,
        external_id=external_id,
        status=said["status"],
        conclusion=said["conclusion"],
        details_url=said.get("details_url"),
        output=output,
    )


def _says(there: CheckRunReply, wanted: dict[str, object]) -> bool:
    """Say whether a check run says what it should; details that are not given are GitHub's."""
    output = {k: v for k, v in there.output.model_dump().items() if v}
    said = {
        "name": there.name,
        "external_id": there.external_id,
        "status": there.status,
        **given(conclusion=there.conclusion, output=output),
    }
    if "details_url" in wanted:
        said["details_url"] = there.details_url
    return said == wanted
