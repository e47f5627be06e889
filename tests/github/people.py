"""What people do to the repository by hand, and what is there afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from tests.github import shapes_issues
from tests.github.app import App
from tests.github.git_store import Content
from tests.github.shapes import Json, Site
from tests.github.state import Issue, Pull, Release, World


class People:
    """The hands of people on a world: none of this goes through the API."""

    def __init__(self, world: World, app: App) -> None:
        """Work on `world`."""
        self.world = world
        self.app = app
        self._site = Site(world, "https://api.github.com", "https://github.com")

    # git

    def git(self, *arguments: str) -> str:
        """Run git in the bare repository; return its stdout."""
        return self.world.git.text(*arguments)

    def sha(self, branch: str = "main") -> str | None:
        """Return the head of a branch."""
        return self.world.git.refs().get(f"refs/heads/{branch}")

    def commit(
        self,
        files: Mapping[str, Content],
        *,
        branch: str = "main",
        login: str = "owner",
        message: str = "Change by hand",
    ) -> str:
        """Commit files to a branch as a person would push them; return the commit."""
        with self.world.lock:
            git, old = self.world.git, self.sha(branch)
            parent = old or self.sha(self.world.default_branch)
            made = git.commit_files(parent, files, message, login, self.world.second())
            git.update_ref(f"refs/heads/{branch}", made, old or "")
            self.world.sync()
            return made

    def seed(self, files: Mapping[str, Content]) -> str:
        """Commit files to main."""
        return self.commit(files, message="The stack")

    def delete_branch(self, branch: str) -> None:
        """Delete a branch; open pull requests of it are closed, as GitHub does."""
        with self.world.lock:
            self.world.git.delete_ref(f"refs/heads/{branch}")
            self.world.sync()

    def protect(self, branch: str) -> None:
        """Refuse every push to a branch from now on."""
        self.world.git.protect(f"refs/heads/{branch}")

    # Issues and pull requests

    def open_issue(self, title: str, body: str = "", *, login: str = "owner") -> int:
        """Open an issue; return its number."""
        with self.world.lock:
            return self.world.add_issue(title, body, login).number

    def close_issue(self, number: int) -> None:
        """Close an issue."""
        with self.world.lock:
            self.world.close(self._issue(number))

    def _issue(self, number: int) -> Issue:
        return self.world.issues[number]

    def open_pull(
        self,
        branch: str,
        *,
        login: str = "maintainer",
        base: str = "main",
        title: str = "A change by hand",
        body: str = "",
        fork: str | None = None,
        files: Mapping[str, Content] | None = None,
    ) -> int:
        """Open a pull request; `files` are committed to its head first. Return its number."""
        with self.world.lock:
            head = self._head(branch, base, login, fork, files)
            issue = self.world.add_issue(title, body, login)
            where = fork or self.world.full_name
            return self.world.add_pull(issue, branch, base, where, head, draft=False).number

    def _head(
        self,
        branch: str,
        base: str,
        login: str,
        fork: str | None,
        files: Mapping[str, Content] | None,
    ) -> str:
        if fork is None:
            if files:
                return self.commit(files, branch=branch, login=login)
            head = self.sha(branch)
        else:
            git, now = self.world.git, self.world.second()
            head = git.commit_files(self.sha(base), files or {}, "From a fork", login, now)
        if head is None:
            raise ValueError(f"no branch {branch}")
        return head

    def commit_to_pull(
        self, number: int, files: Mapping[str, Content], *, login: str = "maintainer"
    ) -> str:
        """Add a commit to the head of a pull request, in its fork where it is from one."""
        with self.world.lock:
            pull = self.world.pulls[number]
            if pull.head_repository == self.world.full_name:
                return self.commit(files, branch=pull.branch, login=login)
            git, now = self.world.git, self.world.second()
            head = git.commit_files(pull.head_sha, files, "From a fork", login, now)
            self.world.move_head(pull, head)
            return head

    def merge(
        self,
        number: int,
        *,
        login: str = "maintainer",
        method: Literal["merge", "squash"] = "merge",
    ) -> str:
        """Merge a pull request as a person; return the commit on the base branch."""
        with self.world.lock:
            pull = self.world.pulls[number]
            base = self.sha(pull.base)
            tree = self.world.git.merged_tree(base or "", pull.head_sha)
            if base is None or tree is None or not pull.is_open:
                raise ValueError(f"pull request {number} cannot be merged")
            parents = [base, pull.head_sha] if method == "merge" else [base]
            message = f"{pull.issue.title} (#{number})"
            now = self.world.second()
            made = self.world.git.write_commit(tree, parents, message, login, now)
            self.world.git.update_ref(f"refs/heads/{pull.base}", made, base)
            self.world.merge(pull, login, made)
            self.world.sync()
            return made

    def close(self, number: int) -> None:
        """Close a pull request without merging it, as a person."""
        self.close_issue(number)

    def reopen(self, number: int) -> None:
        """Reopen a pull request, as a person."""
        with self.world.lock:
            self.world.reopen(self._issue(number))
            self.world.sync()

    def pull(self, number: int) -> Pull:
        """Return a pull request as the fake keeps it."""
        return self.world.pulls[number]

    def comment(
        self,
        number: int,
        body: str,
        *,
        login: str = "maintainer",
        created_at: datetime | None = None,
    ) -> int:
        """Comment as a person; return the comment's id."""
        with self.world.lock:
            return self.world.add_comment(number, body, login, created_at).id

    def edit_comment(self, comment_id: int, body: str) -> None:
        """Edit a comment as its author."""
        with self.world.lock:
            comment = self.world.comments[comment_id]
            comment.body, comment.updated_at = body, self.world.second()

    def release(self, tag: str, *, target: str = "main", login: str = "owner") -> None:
        """Publish a release of the head of `target`."""
        with self.world.lock:
            sha = self.sha(target)
            if sha is None:
                raise ValueError(f"no branch {target}")
            self.world.git.update_ref(f"refs/tags/{tag}", sha, "")
            made = Release(next(self.world.ids), tag, target, login, self.world.second())
            self.world.releases.append(made)

    # What is there now

    def branches(self) -> dict[str, str]:
        """Return branch -> head."""
        heads = self.world.git.refs()
        return {ref.removeprefix("refs/heads/"): sha for ref, sha in heads.items()}

    def pulls(self) -> list[Json]:
        """Return the pull requests, oldest first."""
        with self.world.lock:
            return [shapes_issues.pull_full(self._site, p) for p in self.world.pulls.values()]

    def issues(self) -> list[Json]:
        """Return the issues that are no pull requests, oldest first."""
        with self.world.lock:
            found = [i for i in self.world.issues.values() if i.number not in self.world.pulls]
            return [shapes_issues.issue(self._site, issue) for issue in found]

    def comments(self, number: int) -> list[Json]:
        """Return the comments of an issue or pull request, oldest first."""
        with self.world.lock:
            found = [c for c in self.world.comments.values() if c.number == number]
            return [shapes_issues.comment(self._site, comment) for comment in found]

    def check_runs(self, sha: str) -> list[Json]:
        """Return the check runs of a commit, oldest first."""
        with self.world.lock:
            found = [check for check in self.world.checks.values() if check.head_sha == sha]
            return [shapes_issues.check_run(self._site, c, self.app.id) for c in found]

    def labels(self, number: int) -> list[str]:
        """Return the labels of an issue or pull request."""
        return list(self._issue(number).labels)

    def reactions(self, comment_id: int) -> list[str]:
        """Return the reactions to a comment, oldest first."""
        return [reaction.content for reaction in self.world.comments[comment_id].reactions]
