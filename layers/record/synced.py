"""What files that must outlive a kill or a loss of power are written with."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_all(descriptor: int, payload: bytes) -> None:
    """Write every byte: `os.write` may take fewer on a nearly full disk."""
    while payload:
        payload = payload[os.write(descriptor, payload) :]


def sync_folder(folder: Path) -> None:
    """Have a new file's name survive a loss of power too."""
    with suppress(OSError):  # some file systems cannot
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
