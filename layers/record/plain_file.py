"""A file that somebody else left, read whole: results, evidence, a patch."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from layers.errors import InvalidInput, Location


def read(
    path: Path, most: int, *, at: Path | None = None, links: bool = False, hint: str | None = None
) -> bytes:
    """Return the content of a plain file of at most `most` bytes; InvalidInput for anything else.

    `at` is what errors call it, by default its path. A link is followed where `links` says so: a
    person may name one, what a program left may hold none. Nothing is waited for.
    """
    place = Location(at or path)
    try:
        with _opened(path, links=links) as file:
            content = file.read(most + 1)
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", at=place, hint=hint) from error
    if len(content) > most:
        raise InvalidInput(f"larger than {most:,} bytes", at=place, hint=hint)
    return content


def _opened(path: Path, *, links: bool) -> BinaryIO:
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if links else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no plain file")
    return os.fdopen(descriptor, "rb")
