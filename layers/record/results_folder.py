"""The results folder of a command: known to be ours before anything in it is removed, and held.

`--out` names any folder. What a command clears has names that anybody may use (`logs`, `load`),
so a folder that has one of them must show that it is ours. By default the folder lies in the
checkout, whose author may have put something there beforehand: nothing is written through a link
that came with it, and no file that git tracks is written or removed.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from layers.errors import FvecError, InvalidInput, Location, ToolFailed
from layers.record.answers import FINISHED, STARTED
from layers.record.journal import JOURNAL_FILE, Entry, read
from layers.repository import git

MARKER = ".fvec-results"
TRANSCRIPTS = "transcripts"  # of agents, with what they spent
LEDGER = "spend.jsonl"  # in it: a line for each call, and for time that authors worked
WORKSPACES = "workspaces"  # of agents: copies to work in, which a killed run leaves
CLEARED = ("load", "logs", "profiles", TRANSCRIPTS, WORKSPACES, "worktrees")
RESTARTED = ("load", WORKSPACES, "worktrees")  # of these a resumed run makes its own
DOCUMENTS = ("run.json", "judge.json", "verify.json")  # ours by the schema that they name
_PAGES = ("report.html", "judge.md", "verify.md")
WRITTEN = (MARKER, JOURNAL_FILE, *DOCUMENTS, *_PAGES, *CLEARED, "earlier", "forge")
_RUN_ID = re.compile(r"[0-9a-f]{12}")  # as `layers.session` makes it: a name, never a path
_ELSEWHERE = "name a folder outside the checkout with --out DIR, or remove it there"


@contextmanager
def prepared(out: Path, *, resume: bool = False) -> Iterator[Path]:
    """Yield the results folder, cleared; no other command can use it meanwhile.

    What a finished run left there moves to `earlier/`. With `resume` the journal, logs and
    profiles of an unfinished run stay. Raises InvalidInput, and removes nothing, for a folder that
    is not ours, is of an unfinished run that is not to be resumed, or is in use, and as `check`.
    """
    check(out)
    out = out.resolve()
    resume = resume and (out / JOURNAL_FILE).exists()
    if not resume:
        _check_ours(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        marker = _marker(out)
    except OSError as error:
        raise InvalidInput(
            f"{out} cannot be made: {error.strerror}", hint="name another folder with --out DIR"
        ) from error
    with marker:
        try:
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InvalidInput(
                f"{out} is in use by another fvec command",
                hint="wait until it has ended, or name another folder with --out DIR",
            ) from error
        except OSError as error:  # of a network's disk, as a rule
            raise InvalidInput(
                f"{out} cannot be locked: {error.strerror}",
                hint="name a folder on a disk whose files can be locked with --out DIR",
            ) from error
        if not resume and (out / JOURNAL_FILE).exists():
            _archive(out)
        for name in RESTARTED if resume else CLEARED:
            shutil.rmtree(out / name, ignore_errors=True)
        yield out


def check(out: Path) -> None:
    """Refuse a folder where results would be written through a link, or over a file of git's.

    A link above the folder is refused where it lies in a checkout: it came with that. Whether the
    folder exists does not matter. Raises InvalidInput; Missing where there is no git to ask.
    """
    try:
        link = next(_links(out.absolute()), None)  # as it was named: not resolved
        held = tracked(out.resolve(), *WRITTEN) if link is None else []
    except OSError as error:
        raise InvalidInput(
            f"{out} cannot be looked at: {error.strerror}",
            hint="name another folder with --out DIR",
        ) from error
    if link is not None:
        raise InvalidInput(
            f"{link} is a link; no results are written through it",
            at=Location(out),
            hint=_ELSEWHERE,
        )
    if held:
        raise InvalidInput(
            f"git tracks {held[0]}, which results would replace", at=Location(out), hint=_ELSEWHERE
        )


def _links(out: Path) -> Iterator[Path]:
    """Yield the links on the way to a results folder, and those among what is kept in it."""
    for path in (out, *out.parents):
        if path.is_symlink() and _in_checkout(path.parent):
            yield path
    for name in WRITTEN:
        if (out / name).is_symlink():
            yield out / name
        elif name not in RESTARTED:  # removed before anything is written there
            for folder, folders, files in os.walk(out / name):
                paths = (Path(folder, inner) for inner in (*folders, *files))
                yield from (path for path in paths if path.is_symlink())


def _in_checkout(folder: Path) -> bool:
    """Say whether a folder lies in a checkout, or is one."""
    return any((above / ".git").exists() for above in (folder, *folder.parents))


def tracked(out: Path, *names: str) -> list[str]:
    """Return what git tracks of a folder, by the names in it; InvalidInput where git cannot tell."""
    if not out.is_dir() or not _in_checkout(out):
        return []
    try:
        return git.tracked(out, *(f":(literal){name}" for name in names))
    except ToolFailed as error:
        raise InvalidInput(
            f"whether git tracks files of it cannot be told: {error.message}",
            at=Location(out),
            hint="name a folder outside the checkout with --out DIR",
        ) from error


def _marker(out: Path) -> TextIO:
    """Open the marker, made if need be; OSError for a link in its place."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(out / MARKER, flags, 0o644), "a")


def _check_ours(out: Path) -> None:
    """Refuse a folder with a run that did not finish, or with files that may be somebody's."""
    if (out / JOURNAL_FILE).exists():
        _finished(out)
        return
    theirs = [name for name in CLEARED if (out / name).exists()]
    if theirs and not (out / MARKER).is_file() and not any(_is_ours(out / n) for n in DOCUMENTS):
        raise InvalidInput(
            f"{out} holds {', '.join(theirs)}, which may not be fvec's: they would be removed",
            hint="name a new or empty folder with --out DIR",
        )


def _is_ours(document: Path) -> bool:
    """Whether a file is a JSON document of a schema of ours."""
    try:
        content = json.loads(document.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and str(content.get("schema", "")).startswith("fvec.")


def _finished(out: Path) -> str:
    """Return the id of the finished run whose journal lies in a folder."""
    entries = read(out / JOURNAL_FILE)
    if not entries or entries[-1].kind != FINISHED:
        raise InvalidInput(
            f"{out / JOURNAL_FILE} is of a run that did not finish, or still runs",
            hint="go on with it by --resume, or give --out a new directory",
        )
    head = entries[0].data if entries[0].kind == STARTED else None
    run_id = head.get("run_id") if isinstance(head, dict) else None
    if not isinstance(run_id, str) or not _RUN_ID.fullmatch(run_id):
        raise InvalidInput(
            f"{run_id!r:.60} is no id of a run: fvec did not write this journal",
            at=Location(out / JOURNAL_FILE, 1),
            hint="look who put it there; give --out a new directory",
        )
    return run_id


def finished(out: Path) -> list[Entry]:
    """Return the entries of the finished run in a folder; [] where there is none.

    Raises InvalidInput for a journal that cannot be read.
    """
    path = out / JOURNAL_FILE
    try:
        entries = read(path) if path.is_file() else []
    except OSError as error:
        raise InvalidInput(
            f"the journal cannot be read: {error.strerror}", at=Location(path)
        ) from error
    return entries if entries and entries[-1].kind == FINISHED else []


def in_use(out: Path) -> bool:
    """Say whether a command works in a results folder of ours now."""
    try:
        with _marker(out) as marker:
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def abandoned(out: Path) -> bool:
    """Say whether a folder holds results of ours, as `check` lets them be, and nobody uses it."""
    try:
        check(out)
    except FvecError:
        return False
    return (out / MARKER).is_file() and not in_use(out)


def _archive(out: Path) -> None:
    """Move a finished run's own files aside; its forge stays, for pull requests to be updated."""
    aside = out / "earlier" / _finished(out)
    aside.mkdir(parents=True, exist_ok=True)
    for name in (JOURNAL_FILE, "run.json", "report.html", "logs", "profiles", TRANSCRIPTS):
        if (out / name).exists():
            shutil.rmtree(aside / name, ignore_errors=True)
            (out / name).replace(aside / name)
