"""What a repository holds: branches, files, and commits made through the API."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Final

from bot.forge.base import is_branch_name
from bot.github.api import Api, path_of
from bot.github.errors import Conflict, GitHubError, NotFound
from bot.github.replies import (
    BlobReply,
    CommitReply,
    ContentsReply,
    FileReply,
    ObjectReply,
    RefReply,
    RepositoryReply,
    TreeEntry,
    TreeReply,
)
from bot.render.text import one_line
from layers.errors import InvalidInput

LARGEST_FILE_BYTES = 2**20
ABSENT = ""  # the head of a branch that is not there
_MOST_FILES = 200
_MOST_BYTES = 32 * 2**20
_MOST_RACES = 5  # how often another writer of the branch may come first
_SHA = re.compile(r"[0-9a-f]{40}")
_MODE: Final = "100644"


class Contents:
    """Reads and writes of a repository's git data; all raise `GitHubError`."""

    def __init__(self, api: Api, full_name: str, login: str) -> None:
        """Work on `full_name` ("owner/name") as `login`."""
        self.full_name = full_name
        self.login = login
        self._api = api

    def default_branch(self) -> str:
        """Return the name of the default branch; NotFound for a repository of another name now."""
        return self._itself().default_branch

    def read_only(self) -> str | None:
        """Return the word for why GitHub takes no write here, None where it takes them."""
        found = self._itself()
        return "archived" if found.archived else "disabled" if found.disabled else None

    def branch_sha(self, name: str) -> str | None:
        """Return the commit that a branch is at, or None where there is no such branch."""
        path = self._path("git/ref/heads", check_branch_name(name))
        found = self._api.find(path, RefReply)
        return found.object.sha if found else None

    def file(self, path: str, ref: str, *, limit_bytes: int = LARGEST_FILE_BYTES) -> bytes | None:
        """Return a file's bytes at a branch or commit, or None where it is not there.

        Raises `InvalidInput` for a folder, a link or submodule, and beyond `limit_bytes`.
        """
        found = self._api.find(
            self._path("contents", path), ContentsReply, {"ref": check_revision(ref)}
        )
        if found is None:
            return None
        file = found.root
        if not isinstance(file, FileReply) or file.type != "file":
            raise InvalidInput(f"{path} in {self.full_name} is no plain file")
        if file.size > limit_bytes:
            raise InvalidInput(f"{path} has {file.size:,} bytes; at most {limit_bytes:,} are read")
        if file.encoding == "base64" and (file.content or not file.size):
            return _decoded(file.content, path)
        return self._blob(file.sha, path)  # the contents API gives no file beyond 1 MB

    def read_tree(self, ref: str) -> dict[str, TreeEntry] | None:
        """Return the files of a branch or commit by path, links and submodules included.

        None where they are more than GitHub lists.
        """
        path = self._path("git/trees", check_revision(ref))
        tree = self._api.get(path, TreeReply, {"recursive": 1})
        if tree.truncated:
            return None
        return {
            entry.path: TreeEntry(entry.path, entry.mode, entry.sha, entry.size)
            for entry in tree.tree
            if entry.type != "tree"
        }

    def commit_files(
        self,
        branch: str,
        files: Mapping[str, bytes],
        message: str,
        *,
        parent_of_new: str | None = None,
        expected_head: str | None = None,
    ) -> str:
        """Put files on a branch in one commit, the rest of it as it is; return its head's sha.

        A branch that is not there is made, from `parent_of_new`, or with a history of its own.
        Where nothing would change there is no commit. The branch is never forced: whoever came
        first stays, and the commit is made again on top of that; with `expected_head` (`ABSENT`:
        no branch) it is made on that commit or not at all.
        Raises `InvalidInput` for what is no path or too much, `Conflict` where others kept coming
        first, the head is another than was expected, or a rule forbids it.
        """
        _check_files(files)
        check_branch_name(branch)
        blobs = {path: self._put_blob(content) for path, content in files.items()}
        races = 0
        while True:
            head = self.branch_sha(branch)
            if expected_head is not None and expected_head != (head or ABSENT):
                raise Conflict(f"{branch} of {self.full_name} has moved meanwhile", status=409)
            parent = head or parent_of_new
            commit = self._commit(blobs, message, parent)
            if commit == head:
                return commit
            try:
                self._move(branch, commit, is_new=head is None)
                return commit
            except Conflict:
                races += 1
                # Where the branch is where it was nobody came first: a rule forbids it.
                if races == _MOST_RACES or self.branch_sha(branch) == head:
                    raise

    def _itself(self) -> RepositoryReply:
        """Return the repository; NotFound where its name leads to one of another name.

        It was renamed or transferred, and the old name may be somebody else's tomorrow.
        """
        found = self._api.get(self._path(), RepositoryReply)
        if found.full_name and found.full_name.lower() != self.full_name.lower():
            now = one_line(found.full_name, 200)
            raise NotFound(
                f"{self.full_name} is {now} now", status=301, hint="use its new name: it was moved"
            )
        return found

    def _commit(self, blobs: Mapping[str, str], message: str, parent: str | None) -> str:
        """Make a commit on `parent`, or return that where it holds the blobs already."""
        base_tree = None
        if parent is not None:
            path = self._path("git/commits", parent)
            base_tree = self._api.get(path, CommitReply).tree.sha
        entries = [
            {"path": path, "mode": _MODE, "type": "blob", "sha": sha} for path, sha in blobs.items()
        ]
        tree = self._put("git/trees", {"tree": entries, **given(base_tree=base_tree)})
        if parent is not None and tree == base_tree:
            return parent
        parents = [parent] if parent is not None else []
        return self._put("git/commits", {"message": message, "tree": tree, "parents": parents})

    def _move(self, branch: str, commit: str, *, is_new: bool) -> None:
        """Point a branch at a commit, without force. Raises `Conflict`."""

        def there() -> RefReply | None:
            found = self._api.find(self._path("git/ref/heads", branch), RefReply)
            return found if found and found.object.sha == commit else None

        if is_new:
            method, path = "POST", self._path("git/refs")
            body: dict[str, object] = {"ref": f"refs/heads/{branch}", "sha": commit}
        else:
            method, path = "PATCH", self._path("git/refs/heads", branch)
            body = {"sha": commit, "force": False}
        self._api.repeat(lambda: self._api.send(method, path, RefReply, body), there)

    def _put_blob(self, content: bytes) -> str:
        encoded = base64.b64encode(content).decode()
        return self._put("git/blobs", {"content": encoded, "encoding": "base64"})

    def _put(self, kind: str, body: Mapping[str, object]) -> str:
        """Make a git object; made twice it is the same one, or one that nothing points to."""
        path = self._path(kind)
        return self._api.repeat(lambda: self._api.send("POST", path, ObjectReply, body)).sha

    def _blob(self, sha: str, path: str) -> bytes:
        return _decoded(self._api.get(self._path("git/blobs", sha), BlobReply).content, path)

    def _path(self, *parts: str) -> str:
        return path_of("repos", self.full_name, *parts)


def check_branch_name(name: str) -> str:
    """Return a branch's name as given; raises `InvalidInput` for what git takes for none."""
    if not is_branch_name(name):
        raise InvalidInput(f"not a branch name that the bot works with: {name[:100]!r}")
    return name


def check_revision(ref: str) -> str:
    """Return a branch's name or a commit's sha as given; raises `InvalidInput` for others."""
    return ref if _SHA.fullmatch(ref) else check_branch_name(ref)


def given(**values: object) -> dict[str, object]:
    """Return what is not None."""
    return {name: value for name, value in values.items() if value is not None}


def _check_files(files: Mapping[str, bytes]) -> None:
    total = sum(map(len, files.values()))
    if not files or len(files) > _MOST_FILES or total > _MOST_BYTES:
        raise InvalidInput(
            f"{len(files)} files with {total:,} bytes are no commit of the bot: "
            f"at most {_MOST_FILES} with {_MOST_BYTES:,}"
        )
    for path in files:
        parts = path.split("/")
        hidden = any(part in {"", ".", ".."} or part.lower() == ".git" for part in parts)
        if hidden or len(path) > 1000 or not path.isprintable():
            raise InvalidInput(f"not a path for a file: {path[:100]!r}")


def _decoded(content: str, path: str) -> bytes:
    try:
        return base64.b64decode(content.replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        raise GitHubError(f"GitHub's content of {path} is not base64") from None
