"""How a job ended, noted in its folder: a job that is done again after a kill ends alike."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from bot.jobs.context import JobResult
from bot.jobs.records import Pull

if TYPE_CHECKING:
    from pathlib import Path

    from bot.jobs.context import Context

FILE = "ended.json"
KEPT_S = 7 * 86_400.0  # folders of jobs that ended, and of jobs that nobody came back to


class _Note(BaseModel):
    """`ended.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: Literal["done", "superseded", "refused", "failed"]
    summary: str
    hint: str
    pulls: tuple[Pull, ...] | None
    commit: str | None
    onboarding: int | None
    shown: bool


def read(context: Context) -> JobResult | None:
    """Return how the job ended, None where it did not."""
    try:
        note = _Note.model_validate_json((context.folder / FILE).read_bytes())
    except (OSError, ValidationError):
        return None
    return JobResult(
        note.state,
        note.summary,
        note.hint,
        note.pulls,
        note.commit,
        note.onboarding,
        note.shown,
    )


def write(context: Context, result: JobResult) -> None:
    """Note how the job ended."""
    note = _Note(
        state=result.state,
        summary=result.summary,
        hint=result.hint,
        pulls=result.pulls,
        commit=result.commit,
        onboarding=result.onboarding,
        shown=result.shown,
    )
    context.folder.mkdir(parents=True, exist_ok=True)
    beside = context.folder / f".{FILE}.new"
    beside.write_text(note.model_dump_json(indent=1), encoding="utf-8")
    beside.replace(context.folder / FILE)


def clear(context: Context) -> None:
    """Remove all but the note from the folder of a job that ended."""
    for path in context.folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != FILE:
            path.unlink(missing_ok=True)


def prune(context: Context) -> None:
    """Remove the folders of other jobs that have not been touched for a week."""
    prune_all(context.home.folder, context.folder)


def prune_all(home: Path, but: Path | None = None) -> None:
    """Remove the folders of a repository's jobs that have not been touched for a week."""
    now_s = time.time()
    for folder in (home / "jobs").glob("*"):
        with suppress(FileNotFoundError):  # another worker prunes too
            if folder != but and now_s - folder.stat().st_mtime > KEPT_S:
                shutil.rmtree(folder, ignore_errors=True)
