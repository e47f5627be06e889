"""The fake's objects: a real bare repository, driven by git's plumbing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

_ZERO = "0" * 40
# As on GitHub, nobody pushes to refs/pull/N/head.
_CONFIG = """[http]
    receivepack = true
[receive]
    hideRefs = refs/pull
[uploadpack]
    allowAnySHA1InWant = true
[gc]
    auto = 0
"""
# What the host itself refuses: branches listed in `protected`, and workflows changed by an App.
_UPDATE_HOOK = """#!/bin/sh
if grep -qxF -- "$1" protected 2>/dev/null; then
    echo "error: GH006: Protected branch update failed for $1." >&2
    exit 1
fi
case "$REMOTE_USER" in
*"[bot]") ;;
*) exit 0 ;;
esac
none=0000000000000000000000000000000000000000
old=$2
[ "$3" = $none ] && exit 0
[ "$old" = $none ] && old=$(git merge-base HEAD "$3")
if git diff-tree -r --name-only "$old" "$3" -- .github/workflows | grep -q .; then
    echo "refusing to allow a GitHub App to create or update a workflow without \\`workflows\\` permission" >&2
    exit 1
fi
"""


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link, in the files of a commit."""

    target: str


@dataclass(frozen=True, slots=True)
class Script:
    """An executable file, in the files of a commit."""

    text: str


@dataclass(frozen=True, slots=True)
class Gitlink:
    """A submodule at a commit, in the files of a commit."""

    sha: str


Content = str | bytes | Link | Script | Gitlink | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a tree; `sha` None deletes the path."""

    path: str
    mode: str
    sha: str | None


@dataclass(frozen=True, slots=True)
class TreeLine:
    """One line of a stored tree; `size_bytes` of blobs alone."""

    path: str
    mode: str
    kind: str
    sha: str
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class CommitData:
    """What a commit object says; `date` is ISO 8601."""

    sha: str
    tree: str
    parents: list[str]
    name: str
    email: str
    date: str
    message: str


@dataclass(frozen=True, slots=True)
class Change:
    """One file that differs between two commits."""

    path: str
    status: str  # "added" "modified" "removed"
    sha: str
    additions: int
    deletions: int


class GitFailed(Exception):
    """git said no; the text is its stderr."""


class BareRepository:
    """A bare repository with the settings of a host."""

    def __init__(self, path: Path, branch: str) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.text("init", "--quiet", "--bare", "--template=", f"--initial-branch={branch}", ".")
        with (path / "config").open("a") as config:
            config.write(_CONFIG)
        hook = path / "hooks" / "update"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(_UPDATE_HOOK)
        hook.chmod(0o755)

    @staticmethod
    def environment(home: Path) -> dict[str, str]:
        """Return what git may see: no settings of the machine's user."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "LC_ALL": "C.UTF-8",
        }

    def run(
        self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> bytes:
        """Run git; return its stdout, raise GitFailed with its stderr."""
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.path,
            env={**self.environment(self.path), **(env or {})},
            input=stdin,
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            raise GitFailed(done.stderr.decode("utf-8", "replace").strip())
        return done.stdout

    def text(self, *arguments: str) -> str:
        """Run git; return its stdout without the last line end."""
        return self.run(*arguments).decode("utf-8", "surrogateescape").rstrip("\n")

    def resolve(self, revision: str) -> str | None:
        """Return the commit that a branch, tag, full ref or SHA names."""
        tried = (f"refs/heads/{revision}", f"refs/tags/{revision}", revision)
        for name in tried:
            try:
                return self.text(
                    "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^0"
                )
            except GitFailed:
                continue
        return None

    def refs(self, prefix: str = "refs/heads/") -> dict[str, str]:
        """Return full ref -> SHA of every ref below `prefix`."""
        lines = self.text("for-each-ref", "--format=%(refname) %(objectname)", prefix).splitlines()
        return dict(line.split(" ", 1) for line in lines)

    def update_ref(self, ref: str, new: str, old: str | None = None) -> None:
        """Move a ref; `old`: what it must be at now, "" when it must not exist."""
        expected = [] if old is None else [old or _ZERO]
        self.text("update-ref", ref, new, *expected)

    def delete_ref(self, ref: str) -> None:
        """Remove a ref."""
        self.text("update-ref", "-d", ref)

    def protect(self, ref: str) -> None:
        """Let the server refuse every update of a full ref from now on."""
        with (self.path / "protected").open("a") as file:
            file.write(f"{ref}\n")

    def is_protected(self, ref: str) -> bool:
        """Say whether updates of a full ref are refused."""
        listed = self.path / "protected"
        return listed.exists() and ref in listed.read_text().splitlines()

    def is_ancestor(self, old: str, new: str) -> bool:
        """Say whether `new` descends from `old`."""
        try:
            self.text("merge-base", "--is-ancestor", old, new)
        except GitFailed:
            return False
        return True

    def merge_base(self, one: str, other: str) -> str:
        """Return the best common ancestor."""
        return self.text("merge-base", one, other)

    def kind(self, sha: str) -> str | None:
        """Return "blob", "tree", "commit" or None."""
        try:
            return self.text("cat-file", "-t", sha)
        except GitFailed:
            return None

    def write_blob(self, content: bytes) -> str:
        """Store a blob; return its SHA."""
        return self.run("hash-object", "-w", "--stdin", stdin=content).decode().strip()

    def read_blob(self, sha: str) -> bytes:
        """Return the bytes of a blob."""
        return self.run("cat-file", "blob", sha)

    def write_tree(self, base: str | None, entries: Iterable[Entry]) -> str:
        """Store a tree: that of `base` with `entries` on top; return its SHA."""
        index = {"GIT_INDEX_FILE": str(self.path / f"index-{os.urandom(6).hex()}")}
        lines = b"".join(
            f"{e.mode if e.sha else '0'} {e.sha or _ZERO}\t{e.path}".encode() + b"\0"
            for e in entries
        )
        try:
            self.run("read-tree", *([base] if base else ["--empty"]), env=index)
            self.run("update-index", "-z", "--index-info", stdin=lines, env=index)
            return self.run("write-tree", env=index).decode().strip()
        finally:
            Path(index["GIT_INDEX_FILE"]).unlink(missing_ok=True)

    def list_tree(self, tree: str, *options: str) -> list[TreeLine]:
        """Return the lines of a tree."""
        listed = self.run("ls-tree", "-z", "--long", *options, tree)
        lines = []
        for line in filter(None, listed.decode("utf-8", "surrogateescape").split("\0")):
            head, path = line.split("\t", 1)
            mode, kind, sha, size = head.split()
            lines.append(TreeLine(path, mode, kind, sha, int(size) if size != "-" else None))
        return lines

    def raw_tree(self, *entries: tuple[bytes, str, str]) -> str:
        """Store a tree as it is given, whatever it holds."""
        raw = b"".join(
            mode.encode() + b" " + name + b"\0" + bytes.fromhex(sha) for name, mode, sha in entries
        )
        options = ("-t", "tree", "--literally", "-w", "--stdin")
        return self.run("hash-object", *options, stdin=raw).decode().strip()

    def unfolding(self, levels: int) -> str:
        """Store a tree of 60 ** (levels + 1) files, in `levels` + 2 objects."""
        inside, mode = self.write_blob(b"x"), "100644"
        for _ in range(levels + 1):
            entries = [(f"{n:02}".encode(), mode, inside) for n in range(60)]
            inside, mode = self.raw_tree(*entries), "40000"
        return inside

    def write_commit(
        self, tree: str, parents: list[str], message: str, login: str, date: datetime
    ) -> str:
        """Store a commit by `login`; return its SHA."""
        when = date.strftime("%Y-%m-%dT%H:%M:%SZ")
        email = f"{login.replace('[', '').replace(']', '')}@users.noreply.github.com"
        env = {
            f"GIT_{role}_{what}": value
            for role in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", login), ("EMAIL", email), ("DATE", when))
        }
        options = [word for parent in parents for word in ("-p", parent)]
        made = self.run("commit-tree", tree, *options, stdin=message.encode(), env=env)
        return made.decode().strip()

    def commit_files(
        self,
        parent: str | None,
        files: Mapping[str, Content],
        message: str,
        login: str,
        now: datetime,
    ) -> str:
        """Store a commit of `files` on top of `parent`; return its SHA."""
        tree = self.write_tree(parent, [self._entry(path, what) for path, what in files.items()])
        return self.write_commit(tree, [parent] if parent else [], message, login, now)

    def _entry(self, path: str, content: Content) -> Entry:
        match content:
            case None:
                return Entry(path, "0", None)
            case Gitlink(sha):
                return Entry(path, "160000", sha)
            case Link(target):
                return Entry(path, "120000", self.write_blob(target.encode()))
            case Script(text):
                return Entry(path, "100755", self.write_blob(text.encode()))
            case str():
                return Entry(path, "100644", self.write_blob(content.encode()))
            case bytes():
                return Entry(path, "100644", self.write_blob(content))

    def merged_tree(self, ours: str, theirs: str) -> str | None:
        """Return the tree of the merge of two commits; None where they conflict."""
        try:
            return self.text("merge-tree", "--write-tree", ours, theirs)
        except GitFailed:
            return None

    def commit(self, sha: str) -> CommitData:
        """Return what a commit says."""
        form = "%H%x00%T%x00%P%x00%an%x00%ae%x00%aI%x00%B"
        told = self.text("show", "--no-patch", f"--format={form}", sha)
        found, tree, parents, name, email, date, message = told.split("\0", 6)
        return CommitData(found, tree, parents.split(), name, email, date, message.rstrip("\n"))

    def between(self, base: str, head: str) -> list[str]:
        """Return the commits of `head` that `base` lacks, oldest first."""
        return self.text("rev-list", "--reverse", "--topo-order", f"{base}..{head}").split()

    def changes(self, base: str, head: str) -> list[Change]:
        """Return the files that differ between two commits, renames as two changes."""
        raw = self.run("diff-tree", "-r", "-z", "--no-renames", "--raw", base, head).split(b"\0")
        stat = self.run("diff-tree", "-r", "-z", "--no-renames", "--numstat", base, head)
        counts = {}
        for line in filter(None, stat.split(b"\0")):
            added, removed, path = line.split(b"\t", 2)
            counts[path] = tuple(0 if n == b"-" else int(n) for n in (added, removed))
        words = {b"A": "added", b"M": "modified", b"D": "removed", b"T": "changed"}
        changes = []
        for head_line, path in zip(raw[0::2], raw[1::2], strict=False):
            _, _, old, new, letter = head_line.split(b" ")
            sha = (old if letter == b"D" else new).decode()
            added, removed = counts.get(path, (0, 0))
            name = path.decode("utf-8", "surrogateescape")
            changes.append(Change(name, words[letter[:1]], sha, added, removed))
        return changes
