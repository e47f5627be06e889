"""Lines that are on disk before anything goes on: the ledger's and the transcripts'."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from layers.errors import JournalBroken
from layers.record.synced import sync_folder, write_all


def append(path: Path, line: bytes, what: str) -> None:
    """Append one line to a file, whole or not at all, and sync it; `what` names the file.

    Raises JournalBroken when the disk refuses: a run must not go on without what is missing.
    """
    try:
        _append(path, line + b"\n")
    except OSError as error:
        raise JournalBroken(
            f"the {what} {path} cannot be written: {error.strerror or error}",
            hint="when that is mended, `fvec run --resume` goes on from here",
        ) from error


def _append(path: Path, payload: bytes) -> None:
    new = not path.exists()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        try:
            write_all(descriptor, payload)
            os.fsync(descriptor)
        except OSError:
            with suppress(OSError):  # a torn line may only be the last one
                os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)
    if new:
        sync_folder(path.parent)
