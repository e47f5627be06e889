"""One command at a time on one repository, and the end of what a killed one left in it.

The lock is the kernel's (flock), on a file in the repository's own git folder, which all its
worktrees share: it ends with the process that holds it, however that ends. What the file says is
for people alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from layers.errors import FvecError, InvalidInput, Location, ToolFailed
from layers.record.journal import utc_now
from layers.record.results_folder import abandoned
from layers.repository import git

LOCK_FILE = "fvec.lock"
_OURS = re.compile(r"[0-9a-f]{12}-[1-9][0-9]*")  # as `layers.repository.stack` names worktrees


@contextmanager
def repository(root: Path, out: Path) -> Iterator[None]:
    """Hold the repository of the checkout at `root` for a command with results in `out`.

    Whatever measures holds it: beside another one it would disturb the blocks of both.
    Raises InvalidInput where another one holds it, with its process id and since when. A folder
    that is no checkout is not locked: whoever opens the stack says what is wrong with it.
    """
    path = _lock_path(root)
    if path is None:
        yield
        return
    try:
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            f"the repository cannot be locked: {error.strerror}",
            at=Location(path),
            hint="worktrees and branches of candidates are made in it: fvec must be able to write to "
            "the git folder",
        ) from error
    with file:
        _take(file, path)
        _say(file, {"pid": os.getpid(), "started": utc_now(), "out": str(out.resolve())})
        remove_orphans(root)
        yield
        _say(file, None)


def _lock_path(root: Path) -> Path | None:
    """Return the lock's file, None where `root` is no checkout."""
    try:
        named = git.git(root.resolve(), "rev-parse", "--path-format=absolute", "--git-common-dir")
    except (FvecError, OSError):
        return None
    return Path(named.removesuffix("\n")) / LOCK_FILE


def _take(file: TextIO, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InvalidInput(
            f"another run works on this repository: {_holder(file)}",
            at=Location(path),
            hint="wait until it has ended, or stop it: two runs would disturb each other's "
            "measurements and branches",
        ) from error
    except OSError as error:  # of a network's disk, as a rule
        raise InvalidInput(
            f"the repository cannot be locked: {error.strerror}",
            at=Location(path),
            hint="clone it on a disk whose files can be locked (flock)",
        ) from error


def _holder(file: TextIO) -> str:
    """Say who holds the lock, as far as the file tells."""
    file.seek(0)
    try:
        told = json.loads(file.read())
        return f"process {told['pid']} since {told['started']}, with results in {told['out']}"
    except (ValueError, KeyError, TypeError):
        return "it has not said yet which process it is"


def _say(file: TextIO, holder: dict[str, object] | None) -> None:
    with suppress(OSError):  # a full disk: the lock holds without words
        file.seek(0)
        file.truncate()
        file.write(json.dumps(holder) + "\n" if holder else "")
        file.flush()


def remove_orphans(root: Path) -> None:
    """Remove worktrees that killed commands of ours left: in a results folder that nobody uses.

    A person's stay: those on a branch, under another name, or in a folder that git tracks; so do
    git's notes of those whose disk is not there just now. Branches stay, for the run that made
    them may be resumed.
    """
    for worktree, about in git.worktrees(root):
        named = worktree.parent.name == "worktrees" and _OURS.fullmatch(worktree.name)
        if named and "detached" in about and abandoned(worktree.parent.parent):
            with suppress(ToolFailed):  # it is prevented from being used again, that is all
                git.remove_worktree(root, worktree)
