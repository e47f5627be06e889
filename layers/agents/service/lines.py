"""Lines that are on disk before anything goes on: the ledger's and the transcripts'."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from layers.record.synced import sync_folder, write_all


def append(path: Path, line: bytes) -> None:
    """Append one line to a file, whole or not at all, and sync it; raises OSError."""
    new = not path.exists()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        try:
            write_all(descriptor, line + b"\n")
            os.fsync(descriptor)
        except OSError:
            with suppress(OSError):  # a torn line may only be the last one
                os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)
    if new:
        sync_folder(path.parent)
