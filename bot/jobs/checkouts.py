"""Repositories on this machine: one mirror each, and a checkout for every job that measures.

A mirror is bare and holds what was fetched under names of ours. A checkout is a repository of its
own that borrows the mirror's objects: the branches of one job never meet those of another, and a
job that is done again finds the branches that it had made.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bot.github.commits import TooManyChanges, changes, sizes_bytes
from layers.errors import InvalidInput, ToolFailed
from layers.programs import exclusive
from layers.repository import git
from layers.repository.patches import MOST_BYTES, MOST_FILES

if TYPE_CHECKING:
    from bot.jobs.context import Home

KNOWLEDGE = "fvec/knowledge"
MIRROR, LOCK = "mirror.git", "mirror.lock"
USED = "used"  # touched when something is fetched
UNUSED_S = 30 * 86_400.0  # after which a repository that nobody fetched is forgotten
MOST_CHANGED_BYTES = 4 * MOST_BYTES  # of all files that a pull request changes, both sides


def branch_ref(branch: str) -> str:
    """Return where a mirror keeps a branch."""
    return f"refs/fvec/heads/{branch}"


def pull_ref(number: int) -> str:
    """Return where a mirror keeps the head of a pull request."""
    return f"refs/fvec/pulls/{number}"


def fetched(
    home: Home,
    *,
    branches: tuple[str, ...] = (),
    pull: int | None = None,
    gone: tuple[str, ...] = (),
) -> Path:
    """Return the mirror after fetching branches, and the head of a pull request, into it.

    What it kept of the branches `gone`, which are at GitHub no more, is forgotten. A branch that
    is not there is an error of GitHubError's family; so is no access.
    """
    root = home.folder / MIRROR
    refspecs = [f"+refs/heads/{name}:{branch_ref(name)}" for name in branches]
    if pull is not None:
        refspecs.append(f"+refs/pull/{pull}/head:{pull_ref(pull)}")
    with exclusive(home.folder / LOCK):
        root.mkdir(parents=True, exist_ok=True)
        git.git(root, "init", "--quiet", "--bare")  # again is harmless: a kill may have cut it
        for name in branches:
            git.git(root, "check-ref-format", f"refs/heads/{name}")
        home.remote.fetch(root, *refspecs)
        (home.folder / USED).touch()
        for name in gone:
            git.git(root, "update-ref", "-d", branch_ref(name))
    return root


def forget_pull(home: Home, number: int) -> None:
    """Forget the head of a pull request; there may be none. Raises ToolFailed."""
    root = home.folder / MIRROR
    if root.is_dir():
        with exclusive(home.folder / LOCK):
            git.git(root, "update-ref", "-d", pull_ref(number))


def tidy(folder: Path) -> None:
    """Pack the mirror in a repository's folder, or remove it where nobody has used it for long.

    Nothing is done while a checkout borrows its objects. Raises ToolFailed.
    """
    root, used = folder / MIRROR, folder / USED
    if not root.is_dir() or any(folder.glob("jobs/*/checkout")):
        return
    with exclusive(folder / LOCK):
        if used.exists() and time.time() - used.stat().st_mtime > UNUSED_S:
            shutil.rmtree(root, ignore_errors=True)
        else:
            git.git(root, "gc", "--quiet", timeout_s=git.LONG_S)


def check_out(mirror: Path, commit: str, branch: str, target: Path) -> Path:
    """Return a checkout at `target` with `commit` as its branch `branch`; one that is there stays.

    The bot's branch of knowledge comes with it, where the mirror has it. Files of Git LFS are the
    pointers to them; see `layers.repository.git.check_whole`.
    """
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        git.git(beside, "init", "--quiet", f"--initial-branch={branch}")
        borrowed = beside / ".git" / "objects" / "info" / "alternates"
        borrowed.write_text(f"{mirror.resolve() / 'objects'}\n", encoding="utf-8")
        git.git(beside, "update-ref", f"refs/heads/{branch}", commit)
        known = resolved(mirror, branch_ref(KNOWLEDGE))
        if known is not None:
            git.git(beside, "update-ref", f"refs/heads/{KNOWLEDGE}", known)
        git.git(
            beside,
            *("reset", "--quiet", "--hard", commit),
            env=git.POINTERS,  # there is no remote to fetch the files from
            timeout_s=git.LONG_S,
        )
        beside.rename(target)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return target


def resolved(root: Path, revision: str) -> str | None:
    """Return the full name of a commit, None where there is none."""
    try:
        return git.resolve(root, revision)
    except ToolFailed:
        return None


def builds_on(root: Path, commit: str, ancestor: str) -> bool:
    """Say whether `commit` is `ancestor` or comes after it."""
    try:
        git.git(root, "merge-base", "--is-ancestor", ancestor, commit)
    except ToolFailed:
        return False
    return True


def parted(root: Path, base: str, head: str) -> str:
    """Return the commit where `head` parted from `base`; InvalidInput where they share none."""
    try:
        return git.git(root, "merge-base", base, head).strip()
    except ToolFailed as error:
        raise InvalidInput(
            "the pull request and its base have no commit in common",
            hint="open it against the branch that it was made from",
        ) from error


def patch(root: Path, base: str, head: str) -> bytes:
    """Return the diff of two commits; InvalidInput for one that is too large to be judged."""
    _check_size(root, base, head)
    found = git.patch_between(root, base, head).encode("utf-8", "surrogateescape")
    if len(found) > MOST_BYTES:
        raise _too_large(f"its diff has {len(found):,} bytes, and {MOST_BYTES:,} are read")
    return found


def text_at(root: Path, commit: str, path: str) -> str | None:
    """Return a file's text at a commit, None where there is no such file."""
    try:
        return git.git(root, "show", "--no-textconv", f"{commit}:{path}")
    except ToolFailed:
        return None


def changed(root: Path, base: str, head: str, *paths: str) -> bool:
    """Say whether anything at or below `paths`, which may be globs, differs between two commits."""
    specs = [f":(top,glob){path.rstrip('/')}" for path in paths]
    below = [f"{spec}/**" for spec in specs]
    plain = ("--no-renames", "--name-only", "-z")
    return bool(git.git(root, "diff", *plain, base, head, "--", *specs, *below))


def _check_size(root: Path, base: str, head: str) -> None:
    """Refuse what would fill the memory before git is asked for the diff."""
    try:
        found = changes(root, base, head, most=MOST_FILES)
    except TooManyChanges as error:
        raise _too_large(error.message) from error
    total = 0
    for commit, paths in (
        (base, [change.path for change in found if change.old is not None]),
        (head, [change.path for change in found if change.new is not None]),
    ):
        total += sum(sizes_bytes(root, commit, paths).values())
    if total > MOST_CHANGED_BYTES:
        raise _too_large(
            f"the files that it changes have {total:,} bytes, and {MOST_CHANGED_BYTES:,} are read"
        )


def _too_large(what: str) -> InvalidInput:
    return InvalidInput(
        f"the pull request is too large to be judged: {what}",
        hint="split it, or leave data files out of it",
    )
