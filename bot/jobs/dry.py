"""A repository that is read as it is and written to in words alone: what would follow, as data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Unpack

from bot.github.replies import CheckRun, Comment, Pull
from bot.github.repository import CheckSaid, Reaction, Repository

NUMBER = 0  # of what was not made


class DryRepository(Repository):
    """Reads of another repository object; every write is noted in `writes` and not made."""

    def __init__(self, repository: Repository) -> None:
        """Read what `repository` reads."""
        vars(self).update(vars(repository))
        self.writes: list[dict[str, Any]] = []

    def create_pull(self, branch: str, base: str, title: str, body: str, *, draft: bool) -> Pull:
        """Note it; the pull request that is returned has number 0."""
        self._note("create_pull", branch=branch, base=base, title=title, body=body, draft=draft)
        return Pull(
            number=NUMBER,
            url="",
            state="open",
            merged=False,
            draft=draft,
            branch=branch,
            head_sha="",
            head_repository=self.full_name,
            base=base,
            base_sha="",
            title=title,
            body=body,
            author=self.login,
            labels=(),
        )

    def update_pull(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        base: str | None = None,
        state: Literal["open", "closed"] | None = None,
    ) -> Pull:
        """Note it, and return the pull request as it is."""
        self._note("update_pull", number=number, title=title, body=body, base=base, state=state)
        return self.pull(number)

    def add_labels(self, number: int, names: Iterable[str]) -> None:
        """Note it."""
        self._note("add_labels", number=number, names=list(names))

    def remove_label(self, number: int, name: str) -> None:
        """Note it."""
        self._note("remove_label", number=number, name=name)

    def sticky_comment(self, number: int, key: str, body: str) -> Comment:
        """Note it."""
        self._note("sticky_comment", number=number, key=key, body=body)
        return Comment(id=NUMBER, author=self.login, body=body, url="")

    def react(self, comment_id: int, content: Reaction) -> None:
        """Note it."""
        self._note("react", comment_id=comment_id, content=content)

    def check_run(
        self, head_sha: str, name: str, external_id: str, **said: Unpack[CheckSaid]
    ) -> CheckRun:
        """Note it."""
        self._note("check_run", head_sha=head_sha, name=name, external_id=external_id, **said)
        return CheckRun(
            id=NUMBER,
            name=name,
            head_sha=head_sha,
            external_id=external_id,
            status=said["status"],
            conclusion=said["conclusion"],
            url="",
        )

    def dashboard(self, title: str, body: str) -> int:
        """Note it."""
        self._note("dashboard", title=title, body=body)
        return NUMBER

    def commit_files(
        self,
        branch: str,
        files: Mapping[str, bytes],
        message: str,
        *,
        parent_of_new: str | None = None,
        expected_head: str | None = None,
    ) -> str:
        """Note paths, sizes and digests; return the name of no commit."""
        told = {
            path: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for path, content in files.items()
        }
        self._note(
            "commit_files",
            branch=branch,
            files=told,
            message=message,
            parent_of_new=parent_of_new,
            expected_head=expected_head,
        )
        return "0" * 40

    def _note(self, what: str, **arguments: object) -> None:
        given = {name: value for name, value in arguments.items() if value is not None}
        self.writes.append({"write": what, **given})
