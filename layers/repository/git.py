"""git, as we run it: a scrubbed environment, no hooks, no prompts, no settings that run programs.

The user's own configuration stays in force for the rest (safe.directory above all).
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from layers.base import Edit
from layers.errors import InvalidInput, Missing, ToolFailed
from layers.programs import SYSTEM_PATH
from layers.repository.inert import inert

BOT_NAME = "fvec"
BOT_EMAIL = "fvec@users.noreply.github.com"
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.autocrlf": "false",
    "core.quotePath": "false",
    "commit.gpgSign": "false",
    # A patch is the same whoever makes it, and `git apply` takes it.
    "diff.external": "",
    "diff.context": "3",
    "diff.interHunkContext": "0",
    "diff.algorithm": "default",
    "diff.indentHeuristic": "true",
    "diff.orderFile": os.devnull,
    "diff.submodule": "short",
    "diff.suppressBlankEmpty": "false",
    "gc.auto": "0",
    "protocol.allow": "never",  # nothing here talks to another repository
    # Nor does git-lfs, whose address a candidate could name: objects that are here are served.
    "lfs.url": "https://lfs.invalid",
    "user.name": BOT_NAME,
    "user.email": BOT_EMAIL,
}
_TIMEOUT_S = 120.0
LONG_S = 1800.0  # for what copies or checks a whole repository
POINTERS = {"GIT_LFS_SKIP_SMUDGE": "1"}  # files of Git LFS are left as the pointers to them
_MOST_POINTER_BYTES = 1024  # as the specification of Git LFS says
_POINTER = b"version https://git-lfs.github.com/spec/"
_DISK = ("No space left", "unable to write", "Read-only file system", "Disk quota exceeded")
_LEFT_LOCK = re.compile(r"'(?P<file>[^']+\.lock)': File exists")
_HINTS = {
    "dubious ownership": "it belongs to another user: if you trust it, "
    "`git config --global --add safe.directory PATH`, PATH being the one above",
    "promisor": "objects are left out of this clone, and fvec fetches none: clone without --filter",
}
_PROTECTED = {".git", ".github"}
_CHANGING = ("filter", "ident", "working-tree-encoding", "eol")  # attributes, on the way in or out
_UNSET = frozenset({"unspecified", "unset"})
_SHA256_DIGITS = 64
_SUBMODULE = "160000 "  # how the index begins what it holds of one


def git(
    root: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> str:
    """Run git in `root` and return its stdout. Raises Missing, or ToolFailed with its stderr."""
    settings = [part for key, value in _SETTINGS.items() for part in ("-c", f"{key}={value}")]
    try:
        done = subprocess.run(
            ["git", *settings, *arguments],
            cwd=root,
            env={**_environment(), **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError as error:
        raise Missing("git is not installed", hint="on Debian: apt-get install git") from error
    except subprocess.TimeoutExpired as error:
        raise ToolFailed(f"git {arguments[0]} ran longer than {timeout_s:g} s") from error
    if done.returncode != 0:
        told = done.stderr.decode("utf-8", "replace").strip()
        raise _failure(f"git {arguments[0]} failed in {root}: {told}", told)
    return done.stdout.decode("utf-8", "surrogateescape")


def _failure(message: str, told: str) -> ToolFailed:
    """Return the error of a git command that failed, with a hint where git's words need one."""
    if any(words in told for words in _DISK):
        return ToolFailed(message, hint="the disk may be full, or may not be written to")
    for words, hint in _HINTS.items():
        if words in told:
            return ToolFailed(message, hint=hint)
    locked = _LEFT_LOCK.search(told)
    if locked is None:
        return ToolFailed(message)
    return ToolFailed(
        message,
        hint=f"another git command works there now, or one was killed: if none does, "
        f"remove {locked['file']}, then `fvec run --resume` goes on from here",
    )


def _environment() -> dict[str, str]:
    kept = {key: os.environ[key] for key in ("HOME", "XDG_CONFIG_HOME") if key in os.environ}
    return {
        **kept,
        "PATH": os.environ.get("PATH", SYSTEM_PATH),
        "LC_ALL": "C.UTF-8",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_EDITOR": "true",
        "GIT_PAGER": "cat",
    }


def changed_paths(root: Path) -> list[str]:
    """Return the paths that differ from the commit, untracked ones included, sorted."""
    entries = git(root, "status", "--porcelain=v1", "-z", "--no-renames").split("\0")
    return sorted(entry[3:] for entry in entries if entry)


def tracked(root: Path, *pathspecs: str) -> list[str]:
    """Return the tracked paths below `pathspecs`, relative to `root`, sorted."""
    return sorted(
        path for path in git(root, "ls-files", "-z", "--", *pathspecs).split("\0") if path
    )


def resolve(root: Path, revision: str) -> str:
    """Return the full name of a commit; ToolFailed when there is none."""
    return git(root, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}").strip()


def commit_edit(worktree: Path, edit: Edit, *, as_it_is: bool = False) -> tuple[str, str]:
    """Apply `edit` to a clean worktree and commit it; return the commit and its patch.

    The dates are the base commit's, so that the same edit of the same base is the same commit.
    An edit that changes nothing gives a commit with an empty patch. With `as_it_is`, InvalidInput
    where git, by the repository's attributes, would keep or check out other bytes than the edit's.
    """
    if as_it_is:
        _check_attributes(worktree, edit)
    base = resolve(worktree, "HEAD")
    for name, content in edit.files.items():
        _write(worktree, checked_path(worktree, name), content)
    paths = list(edit.files)
    if paths:
        git(worktree, "--literal-pathspecs", "add", "--all", "--force", "--", *paths)
    date = git(worktree, "show", "--no-patch", "--format=%cI", base).strip()
    # Names of models and texts of cards are in it, and a forge acts on what a commit says.
    message = inert(f"{edit.summary}\n\n{edit.explanation}".strip())
    git(
        worktree,
        *("commit", "--quiet", "--no-verify", "--allow-empty", "--cleanup=verbatim"),
        *("--message", message),
        env={"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date},
    )
    commit = resolve(worktree, "HEAD")
    if as_it_is:
        _check_kept(worktree, commit, edit)
    return commit, patch_between(worktree, base, commit)


def _check_attributes(worktree: Path, edit: Edit) -> None:
    """Refuse files that git would change on their way in or out, before any filter runs."""
    names = [name for name, content in edit.files.items() if content is not None]
    if not names:
        return
    told = git(worktree, "check-attr", "-z", *_CHANGING, "--", *names).split("\0")
    for name, attribute, value in zip(told[::3], told[1::3], told[2::3], strict=False):
        changes = value not in _UNSET
        if attribute == "eol":  # line feeds stay as they are; where others were taken out is seen
            changes = value == "crlf"
        if changes:
            raise _other_bytes(name, f"its attribute {attribute} in .gitattributes is {value}")


def _check_kept(worktree: Path, commit: str, edit: Edit) -> None:
    """Refuse a commit whose blobs are not the bytes of the edit: those were served and judged."""
    names = [name for name, content in edit.files.items() if content is not None]
    if not names:
        return
    listed = git(worktree, "--literal-pathspecs", "ls-tree", "-r", "-z", commit, "--", *names)
    kept = {}
    for entry in filter(None, listed.split("\0")):
        about, _, name = entry.partition("\t")
        kept[name] = about.split()[2]
    for name in names:
        if kept.get(name) != _blob(edit.files[name] or b"", kept.get(name, "")):
            raise _other_bytes(name, "by its attributes, in .gitattributes or of this machine")


def _blob(content: bytes, like: str) -> str:
    """Return the name of a blob, in the format that another name is in."""
    digest = hashlib.sha256 if len(like) == _SHA256_DIGITS else hashlib.sha1
    return digest(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _other_bytes(name: str, why: str) -> InvalidInput:
    return InvalidInput(f"git would keep other bytes of {name!r} than were checked: {why}")


def pick(worktree: Path, commit: str) -> str | None:
    """Commit the change of `commit` on top of a clean worktree; None where it does not fit there.

    It fits where the same lines go and come: a merge that git finds clean may take or leave some,
    above all by a driver that the repository's own `.gitattributes` names. The message is kept and
    the dates are the base commit's, so that the same change on the same base is the same commit.
    """
    try:
        git(worktree, "cherry-pick", "--no-commit", "--allow-empty", commit)
    except ToolFailed:
        conflicts = git(worktree, "diff", "--name-only", "--diff-filter=U")
        git(worktree, "reset", "--hard", "--quiet")
        if not conflicts:
            raise
        return None
    date = git(worktree, "show", "--no-patch", "--format=%cI", "HEAD").strip()
    git(
        worktree,
        *("commit", "--quiet", "--no-verify", "--allow-empty", "--cleanup=verbatim"),
        *("--reuse-message", commit, "--reset-author"),
        env={"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date},
    )
    if _changed_lines(worktree, "HEAD") != _changed_lines(worktree, commit):
        git(worktree, "reset", "--hard", "--quiet", "HEAD^")
        return None
    return resolve(worktree, "HEAD")


def _changed_lines(root: Path, commit: str) -> list[str]:
    """Return what a commit takes out and puts in, file by file, wherever in the file that is."""
    options = ("--unified=0", "--inter-hunk-context=0", "--binary", "--no-renames", "--no-color")
    plain = ("--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/")
    told = git(root, "diff", *options, *plain, f"{commit}^", commit, "--")
    return [line for line in told.split("\n") if not line.startswith(("@@ ", "index "))]


def patch_between(root: Path, base: str, commit: str) -> str:
    """Return the diff of two commits, fit for `git apply`."""
    options = ("--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv")
    # The user's own settings may change the prefixes, which `git apply` relies on.
    prefixes = ("--src-prefix=a/", "--dst-prefix=b/")
    return git(root, "diff", *options, *prefixes, "--no-renames", base, commit, "--")


def check_whole(worktree: Path, *places: str) -> None:
    """Refuse what a worktree has no more than a name of: files of Git LFS, and submodules.

    `places` are the files and folders that are needed. Raises InvalidInput.
    """
    for entry in filter(None, git(worktree, "ls-files", "--stage", "-z").split("\0")):
        about, _, name = entry.partition("\t")
        needed = any(_lies_in(name, place) for place in places)
        if about.startswith(_SUBMODULE) and (needed or any(_lies_in(p, name) for p in places)):
            raise InvalidInput(
                f"{name!r} is a submodule, and the worktrees that are served have none",
                hint="let git track models and traffic in the stack's own repository",
            )
        if needed and _is_pointer(worktree / name):
            raise InvalidInput(
                f"{name!r} is a pointer to a file that Git LFS keeps, not the file",
                hint="fvec fetches none: measure in a checkout that has them (`git lfs pull`)",
            )


def _lies_in(name: str, place: str) -> bool:
    """Whether a tracked path is `place`, or lies in that folder."""
    return name == place or name.startswith(f"{place}/")


def _is_pointer(path: Path) -> bool:
    try:
        if path.is_symlink() or path.stat().st_size > _MOST_POINTER_BYTES:
            return False
        return path.read_bytes().startswith(_POINTER)
    except OSError:
        return False


def checked_path(worktree: Path, name: str) -> Path:
    """Return where an edit of `name` goes; InvalidInput unless it is a file of the stack.

    Refused: paths that are absolute or climb, `.git` anywhere, `.github/`, control characters
    and backslashes, anything through or onto a symbolic link, and folders.
    """
    pure = PurePosixPath(name)
    parts = [part.casefold() for part in pure.parts]
    odd = "\\" in name or not name.isprintable() or str(pure) != name
    if odd or pure.is_absolute() or not parts or ".." in parts:
        raise _refused(name, "it is not a plain path relative to the repository")
    if ".git" in parts or parts[0] in _PROTECTED:
        raise _refused(name, ".git and .github belong to the repository's owners")
    target = worktree
    for index, part in enumerate(pure.parts):
        target = target / part
        if target.is_symlink():
            raise _refused(name, f"{part} is a symbolic link")
        last = index == len(parts) - 1
        if target.exists() and target.is_dir() == last:
            raise _refused(name, f"{part} is {'a folder' if last else 'not a folder'}")
    return target


def _refused(name: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"an edit of {name!r} is refused: {why}",
        hint="an edit names files below the repository's root, outside .git and .github",
    )


def _write(worktree: Path, target: Path, content: bytes | None) -> None:
    """Write or delete one file; an existing file keeps its mode."""
    if content is None:
        if not target.is_file():
            raise _refused(str(target.relative_to(worktree)), "there is no such file to delete")
        target.unlink()
        return
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o644
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    target.chmod(mode)


def set_branch(root: Path, branch: str, commit: str) -> None:
    """Point `branch` at `commit`; InvalidInput when a branch of that name is not the bot's.

    A branch is the bot's when the bot committed its tip: nobody has built on it since.
    """
    reference = f"refs/heads/{branch}"
    git(root, "check-ref-format", reference)
    old = tip(root, branch)
    if old == commit:
        return
    if old is not None:
        committer = git(root, "show", "--no-patch", "--format=%ce", old).strip()
        if committer != BOT_EMAIL:
            raise InvalidInput(
                f"the branch {branch} exists and its last commit is not the bot's",
                hint="rename or delete it; the bot writes only to branches that it made",
            )
    move_branch(root, branch, commit, old)


def move_branch(root: Path, branch: str, commit: str, old: str | None) -> None:
    """Point `branch` at `commit` where it is at `old` still; None: where it is not there still.

    Raises InvalidInput where somebody has it checked out, whose next commit would undo what came,
    ToolFailed where it was moved meanwhile.
    """
    place = _checked_out(root, branch)
    if place is not None:
        raise InvalidInput(
            f"the branch {branch} is checked out in {place}, and the bot has a commit for it",
            hint="check out another branch there; where that folder is gone: `git worktree prune`",
        )
    git(root, "update-ref", f"refs/heads/{branch}", commit, old or "0" * len(commit))


def drop_branch(root: Path, branch: str, commit: str) -> None:
    """Delete `branch` if it still points at `commit`, which is the bot's; else leave it.

    It is left, too, where somebody has it checked out to look at it.
    """
    if tip(root, branch) == commit and _checked_out(root, branch) is None:
        git(root, "update-ref", "-d", f"refs/heads/{branch}", commit)


def _checked_out(root: Path, branch: str) -> Path | None:
    reference = f"branch refs/heads/{branch}"
    return next((place for place, about in worktrees(root) if reference in about), None)


def worktrees(root: Path) -> Iterator[tuple[Path, frozenset[str]]]:
    """Yield the worktrees that git knows of, the checkout too, each with what it says of it.

    One with a line feed in its path is not told right: only newer versions of git can.
    """
    for record in git(root, "worktree", "list", "--porcelain").split("\n\n"):
        first, *about = record.split("\n")
        if first.startswith("worktree "):
            yield Path(first.removeprefix("worktree ")), frozenset(about)


def remove_worktree(root: Path, worktree: Path) -> None:
    """Remove a worktree, or git's note of one that is gone from the disk. Raises ToolFailed."""
    remove = ("worktree", "remove", "--force", "--force")
    git(root, *remove, str(worktree), timeout_s=LONG_S)


def forget_gone(root: Path, folder: Path) -> None:
    """Drop git's notes of worktrees in a folder of ours that are gone from the disk.

    `git worktree prune` would drop a person's, too: of a disk that is not there just now, say.
    """
    for place, _ in worktrees(root):
        if place.is_relative_to(folder) and not place.exists():
            with suppress(ToolFailed):  # another command was quicker
                remove_worktree(root, place)


def tip(root: Path, branch: str) -> str | None:
    """Return the commit of a branch, None where there is no branch of just that name."""
    reference = f"refs/heads/{branch}"
    # The pattern also matches what lies below a folder of that name.
    lines = git(root, "for-each-ref", "--format=%(refname) %(objectname)", reference).splitlines()
    return dict(line.rsplit(" ", 1) for line in lines).get(reference)
