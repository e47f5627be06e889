"""The results folder of a command: known to be ours before anything in it is removed, and held.

`--out` names any folder. What a command clears has names that anybody may use (`logs`, `load`),
so a folder that has one of them must show that it is ours.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from layers.answers import FINISHED
from layers.errors import InvalidInput, Location
from layers.journal import JOURNAL_FILE, Entry, read

MARKER = ".fvec-results"
CLEARED = ("load", "logs", "profiles", "worktrees")
RESTARTED = ("load", "worktrees")  # of these a resumed run makes its own
DOCUMENTS = ("run.json", "judge.json", "verify.json")  # ours by the schema that they name


@contextmanager
def prepared(out: Path, *, resume: bool = False) -> Iterator[Path]:
    """Yield the results folder, cleared; no other command can use it meanwhile.

    What a finished run left there moves to `earlier/`. With `resume` the journal, logs and
    profiles of an unfinished run stay. Raises InvalidInput, and removes nothing, for a folder that
    is not ours, is of an unfinished run that is not to be resumed, or is in use.
    """
    out = out.resolve()
    resume = resume and (out / JOURNAL_FILE).exists()
    if not resume:
        _check_ours(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        marker = (out / MARKER).open("a")
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
        if not resume and (out / JOURNAL_FILE).exists():
            _archive(out)
        for name in RESTARTED if resume else CLEARED:
            shutil.rmtree(out / name, ignore_errors=True)
        yield out


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
    return str(entries[0].data["run_id"])


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
        with (out / MARKER).open("a") as marker:
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def _archive(out: Path) -> None:
    """Move a finished run's own files aside; its forge stays, for pull requests to be updated."""
    aside = out / "earlier" / _finished(out)
    aside.mkdir(parents=True, exist_ok=True)
    for name in (JOURNAL_FILE, "run.json", "report.html", "logs", "profiles"):
        if (out / name).exists():
            shutil.rmtree(aside / name, ignore_errors=True)
            (out / name).replace(aside / name)
