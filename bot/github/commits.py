"""What a branch that the bot pushes may hold, looked at in git's objects alone.

Branches come from a run that may have happened elsewhere: they are outside input. A tree is walked
folder by folder, so that one that unfolds without end is refused and not read.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bot.github.scratch import local_only, scratch, take_over
from bot.wake.policy import KNOWLEDGE
from layers.errors import InvalidInput, Location, ToolFailed
from layers.gates.paths import guarded
from layers.redact import redact
from layers.repository import git
from layers.repository.inert import inert
from layers.repository.patches import MOST_BYTES

MOST_COMMITS = 64
MOST_FILES = 200  # that one commit changes; and folders that hold them, counted at every level
MOST_FILE_BYTES = MOST_BYTES
MOST_COMMIT_BYTES = 4 * MOST_BYTES  # of all files that one commit changes
MOST_BUNDLE_BYTES = 64 * 2**20
_MOST_MESSAGE_BYTES = 64 * 2**10
_LONGEST_PATH, _LONGEST_NAME = 1000, 255

_OURS = re.compile(r"fvec/[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")
_SHA = re.compile(r"[0-9a-f]{40}")
_ENTRY = re.compile(r":(\d{6}) (\d{6}) ([0-9a-f]{40}) ([0-9a-f]{40}) [A-Z]\d*")
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_ABSENT, _FOLDER, _PLAIN, _EXECUTABLE = "000000", "040000", "100644", "100755"
_KINDS = {"120000": "a symbolic link", "160000": "a submodule"}
_HEADERS = ("tree", "parent", "author", "committer")
_BY_BOT = re.compile(rf"{re.escape(git.BOT_NAME)} <{re.escape(git.BOT_EMAIL)}> \d+ [+-]\d{{4}}")
# Names under which a file system that folds case or shortens names would find one of git's. A
# `.gitignore` runs and hides nothing: native parts of accepted changes bring one.
_OF_GIT = re.compile(r"\.git(?!ignore\Z).*|gi(?:t|[0-9a-f]{4})~\d+", re.IGNORECASE | re.DOTALL)
# What stands in a repository's settings or notes changes nothing of what is looked at here.
_AS_STORED = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull}
_NOWHERE = Path(os.devnull)
_FROM_BUNDLE = "refs/fvec/bundle/"
_HINT = "nothing was pushed; look at `git show {commit}`"


@dataclass(frozen=True, slots=True)
class Stored:
    """One side of a change: the mode, as git writes it, and the name of what is stored."""

    mode: str
    name: str


@dataclass(frozen=True, slots=True)
class Change:
    """A file that differs between two commits; None is the side that has no such file."""

    path: str
    old: Stored | None
    new: Stored | None


class TooManyChanges(InvalidInput):
    """Two commits differ in more files or folders than are looked at."""


def check_own_branch(name: str) -> str:
    """Return the name of a branch that is the bot's to push; raises InvalidInput for any other."""
    parts = name.split("/")
    odd = any(not part or part[0] in ".-" or part.endswith((".", ".lock")) for part in parts)
    if not _OURS.fullmatch(name) or odd or ".." in name:
        raise InvalidInput(
            f"{name[:200]!r} is no branch of the bot",
            hint="it pushes to branches below fvec/ and to no other",
        )
    return name


def check_branch(root: Path, base: str, commit: str) -> None:
    """Check that `commit` is `base` and plain changes of the bot on top of it.

    Both are full names of commits that the repository at `root` has. Raises InvalidInput, naming
    commit and path: a commit that is a merge, somebody else's or not built on `base`; a message
    that a forge acts on, or that holds a secret or what nobody sees; a link, a submodule, a file that becomes executable or stops being
    so; a file of git, of the owners (`.github`, CODEOWNERS) or of another CI system; a name that
    is not plain; too many commits or files, too many bytes.
    """
    for name in (base, commit):
        if not _SHA.fullmatch(name):
            raise InvalidInput(f"not the full name of a commit: {name[:100]!r}")
    if base == commit:
        raise InvalidInput(f"there is no commit on top of {base[:12]}")
    for child, parent in reversed(_chain(root, base, commit)):
        found = changes(root, parent, child)
        for change in found:
            why = _why_refused(change)
            if why is not None:
                raise _refused(child, f"{change.path[:_LONGEST_NAME]!r} {why}")
        _check_sizes(root, child, found)


def changes(root: Path, old: str, new: str, *, most: int = MOST_FILES) -> list[Change]:
    """Return the files that differ between two commits, sorted by path.

    Raises TooManyChanges for more than `most` of them, or in more than `most` folders.
    """
    found: list[Change] = []
    waiting = [("", f"{old}^{{tree}}", f"{new}^{{tree}}")]
    folders = 0
    while waiting:
        folder, before, after = waiting.pop()
        folders += 1
        for change in _differences(root, folder, before, after):
            trees = [_tree(side) for side in (change.old, change.new)]
            if trees != [_EMPTY_TREE, _EMPTY_TREE]:
                waiting.append((f"{change.path}/", trees[0], trees[1]))
            files = [_file(side) for side in (change.old, change.new)]
            if files != [None, None]:
                found.append(Change(change.path, files[0], files[1]))
        if max(len(found), folders + len(waiting)) > most:
            raise TooManyChanges(
                f"commit {new[:12]} changes more than {most:,} files or folders",
                hint="split it into smaller ones",
            )
    return sorted(found, key=lambda change: change.path)


def sizes_bytes(root: Path, commit: str, paths: Sequence[str]) -> dict[str, int]:
    """Return the size of files of a commit by path; what is no file (a submodule) has none.

    Only the folders that lead to them are read.
    """
    if not paths:
        return {}
    names = [f":(literal){path}" for path in paths]
    listed = git.git(
        root, "ls-tree", "-l", "-z", "--full-tree", commit, "--", *names, env=_AS_STORED
    )
    sizes: dict[str, int] = {}
    for line in listed.split("\0")[:-1]:
        head, _, path = line.partition("\t")
        size = head.split()[3]
        if size != "-":
            sizes[path] = int(size)
    return sizes


def fetch_bundle(root: Path, bundle: Path, branches: Iterable[str]) -> None:
    """Fetch branches of the bot from a bundle into the repository at `root`, under their names.

    Every object is checked by git before `root` has it; what the branches hold is not:
    `check_branch` does that. A branch that is there already moves only if it is the bot's. Raises
    InvalidInput: no plain file, too large, no bundle, one that needs commits which are not there,
    one with another name than `refs/heads/fvec/...`, or without one that is asked for. The branch
    of knowledge alone may be absent: a run that learned nothing new leaves it as it was.
    """
    wanted = sorted({check_own_branch(name) for name in branches})
    if not wanted:
        raise InvalidInput("no branch is asked for", at=Location(bundle))
    with scratch(root) as bare:
        copy = bare.with_name("branches.bundle")
        _copy(bundle, copy)
        found = _heads(bare, copy, bundle, wanted)
        try:
            _unpack(root, bare, copy, found)
        except ToolFailed as error:
            raise _bad_bundle(bundle, error, copy) from error
    for name in found:
        kept = f"{_FROM_BUNDLE}{name}"
        _move(root, name, git.resolve(root, kept))
        git.git(root, "update-ref", "-d", kept)


def _chain(root: Path, base: str, commit: str) -> list[tuple[str, str]]:
    """Return the commits from `commit` down to `base` with their parents, each checked."""
    chain: list[tuple[str, str]] = []
    child = commit
    while child != base:
        if len(chain) == MOST_COMMITS:
            raise _refused(commit, f"more than {MOST_COMMITS} commits on top of {base[:12]}")
        parent = _parent(root, child, base)
        chain.append((child, parent))
        child = parent
    return chain


def _parent(root: Path, commit: str, base: str) -> str:
    """Return the one parent of a commit of the bot, read as it is stored."""
    try:
        stored = git.git(root, "cat-file", "commit", commit, env=_AS_STORED)
    except ToolFailed as error:
        raise _refused(commit, "there is no such commit in the checkout") from error
    head, _, message = stored.partition("\n\n")
    lines = [line.partition(" ") for line in head.split("\n")]
    values = {key: value for key, _, value in lines}
    if [key for key, _, _ in lines].count("parent") > 1:
        raise _refused(commit, "it is a merge")
    if not all(_BY_BOT.fullmatch(values.get(who, "")) for who in _HEADERS[2:]):
        raise _refused(commit, f"it is not the bot's: on top of {base[:12]} nothing else may stand")
    if tuple(key for key, _, _ in lines) != _HEADERS:
        raise _refused(commit, f"it has no parent, or more in its head than {', '.join(_HEADERS)}")
    why = _why_no_message(message)
    if why is not None:
        raise _refused(commit, f"its message {why}")
    return values["parent"]


def _why_no_message(message: str) -> str | None:
    """Say why no commit of the bot has such a message; None where one may."""
    if len(message) > _MOST_MESSAGE_BYTES:
        return f"has more than {_MOST_MESSAGE_BYTES:,} characters"
    if message != inert(message):
        return (
            "holds what a forge acts on (a person, an issue, an address, a mark that skips "
            "checks), or characters that nobody sees"
        )
    return "holds what looks like a secret" if message != redact(message) else None


def _differences(root: Path, folder: str, before: str, after: str) -> list[Change]:
    """Return what differs between two trees, their folders unopened."""
    plain = ("-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=none")
    told = git.git(root, "diff-tree", *plain, before, after, "--", env=_AS_STORED)
    fields = told.split("\0")[:-1]
    found = []
    for entry, name in zip(fields[0::2], fields[1::2], strict=True):
        parts = _ENTRY.fullmatch(entry)
        if parts is None:
            raise ToolFailed(f"git diff-tree told {entry[:100]!r}")
        old_mode, mode, old, new = parts.groups()
        sides = (_side(old_mode, old), _side(mode, new))
        found.append(Change(f"{folder}{name}", *sides))
    return found


def _side(mode: str, name: str) -> Stored | None:
    return None if mode == _ABSENT else Stored(mode, name)


def _tree(side: Stored | None) -> str:
    return side.name if side is not None and side.mode == _FOLDER else _EMPTY_TREE


def _file(side: Stored | None) -> Stored | None:
    return None if side is not None and side.mode == _FOLDER else side


def _why_refused(change: Change) -> str | None:
    """Say why a branch of the bot may not change a file so; None where it may."""
    modes = [side.mode for side in (change.old, change.new) if side is not None]
    for mode in modes:
        if mode not in (_PLAIN, _EXECUTABLE):
            return f"is, or would become, {_KINDS.get(mode, mode)}"
    before = change.old.mode if change.old is not None else _PLAIN
    if change.new is not None and change.new.mode != before:
        return (
            f"goes from mode {before} to {change.new.mode}: the bot changes what files hold alone"
        )
    return _why_no_path(change.path)


def _why_no_path(path: str) -> str | None:
    parts = PurePosixPath(path).parts
    longest = max((len(_bytes(part)) for part in parts), default=0)
    if len(_bytes(path)) > _LONGEST_PATH or longest > _LONGEST_NAME:
        return "is too long a name"
    if guarded([path], ()):
        return "is git's, or the repository's owners'"
    if any(_OF_GIT.fullmatch(part) for part in parts):
        return "may be taken for a file of git"
    try:
        git.checked_path(_NOWHERE, path)  # no file lies there: the rules on names alone
    except InvalidInput:
        return "is not a plain path relative to the repository"
    return None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _check_sizes(root: Path, commit: str, found: list[Change]) -> None:
    sizes = sizes_bytes(root, commit, [change.path for change in found if change.new is not None])
    for path, size_bytes in sizes.items():
        if size_bytes > MOST_FILE_BYTES:
            raise _refused(
                commit, f"{path!r} has {size_bytes:,} bytes, more than {MOST_FILE_BYTES:,}"
            )
    total = sum(sizes.values())
    if total > MOST_COMMIT_BYTES:
        raise _refused(commit, f"its files have {total:,} bytes, more than {MOST_COMMIT_BYTES:,}")


def _refused(commit: str, why: str) -> InvalidInput:
    short = commit[:12]
    return InvalidInput(f"commit {short} may not be pushed: {why}", hint=_HINT.format(commit=short))


def _copy(bundle: Path, copy: Path) -> None:
    """Copy a plain file of bounded size: what is checked is what is read."""
    try:
        with open(bundle, "rb", opener=_open_itself) as source, copy.open("xb") as target:
            found = os.fstat(source.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise InvalidInput("not a plain file", at=Location(bundle))
            if found.st_size > MOST_BUNDLE_BYTES:
                raise InvalidInput(f"more than {MOST_BUNDLE_BYTES:,} bytes", at=Location(bundle))
            shutil.copyfileobj(source, target)
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", at=Location(bundle)) from error


def _open_itself(path: str, flags: int) -> int:
    """Open a file, not where a link leads; a pipe is not waited for."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _heads(bare: Path, copy: Path, bundle: Path, wanted: list[str]) -> list[str]:
    """Return which of the branches are in a bundle; refuse what else it should not be."""
    try:
        git.git(bare, "bundle", "verify", str(copy))
        listed = git.git(bare, "bundle", "list-heads", str(copy))
    except ToolFailed as error:
        raise _bad_bundle(bundle, error, copy) from error
    names = {line.partition(" ")[2] for line in listed.splitlines()}
    for name in sorted(names):
        try:
            check_own_branch(name.removeprefix("refs/heads/"))
        except InvalidInput as error:
            raise InvalidInput(
                f"{name[:200]!r} is no branch of the bot", at=Location(bundle)
            ) from error
    found = [name for name in wanted if f"refs/heads/{name}" in names]
    absent = {*wanted} - {*found, KNOWLEDGE}
    if absent:
        raise InvalidInput(f"the branch {min(absent)} is not in it", at=Location(bundle))
    return found


def _unpack(root: Path, bare: Path, copy: Path, found: list[str]) -> None:
    if not found:
        return
    plain = ("--quiet", "--no-tags", "--no-write-fetch-head")
    here = [f"+refs/heads/{name}:refs/heads/{name}" for name in found]
    git.git(bare, "fetch", *plain, "--", str(copy), *here, env=local_only())
    take_over(root, bare, *(f"+refs/heads/{name}:{_FROM_BUNDLE}{name}" for name in found))


def _move(root: Path, branch: str, commit: str) -> None:
    """Move a branch forward; to another line of commits only where its head is the bot's."""
    old = git.tip(root, branch)
    if old is not None and git.git(root, "rev-list", "-1", f"{commit}..{old}"):
        git.set_branch(root, branch, commit)
    elif old != commit:
        git.move_branch(root, branch, commit, old)


def _bad_bundle(bundle: Path, error: ToolFailed, copy: Path) -> InvalidInput:
    told = error.message.replace(str(copy), bundle.name)
    return InvalidInput(
        f"not a bundle that can be read here: {told[:1000]}",
        at=Location(bundle),
        hint="it is made by `git bundle create FILE BASE..BRANCH`; the checkout must have BASE",
    )
