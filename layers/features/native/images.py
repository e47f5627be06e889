"""Files of memory that processes share: one per content, there as long as a process reads it.

A file is complete under another name before it gets its own, so a process that dies leaves no half
of one. Every reader holds a shared lock, which the system drops when the process ends in whatever
way; who gets the exclusive lock is alone and removes the file. That is tried at the end of every
process, and for all files when one is opened, so that those of a killed process go too.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import mmap
import os
import stat
import tempfile
from pathlib import Path

_ATTEMPTS = 5  # another process may remove the file between two steps
_open: list[tuple[Path, int]] = []  # what this process reads, with the descriptor that is locked


def shared(content: bytes) -> mmap.mmap | bytes:
    """Return the content in memory that all processes of this user share; `content` if it fails."""
    with contextlib.suppress(OSError, ValueError):
        folder = _folder()
        _sweep(folder)
        path = folder / hashlib.sha256(content).hexdigest()
        for _ in range(_ATTEMPTS):
            mapped = _mapped(path, content)
            if mapped is not None:
                return mapped
    return content


def _folder() -> Path:
    """Return the folder of these files; PermissionError when it is not this user's alone."""
    folder = Path(tempfile.gettempdir()) / f"fvec-vocabulary-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise PermissionError(f"{folder} is not this user's own folder")
    return folder


def _mapped(path: Path, content: bytes) -> mmap.mmap | None:
    """Return the file's memory, the file made first where there is none; None to try again."""
    if not path.exists():
        _create(path, content)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        if _is_at(path, descriptor) and hashlib.sha256(mapped).hexdigest() == path.name:
            _open.append((path, descriptor))
            return mapped
    except (OSError, ValueError):  # being removed, or not ours: empty, say
        pass
    os.close(descriptor)
    _remove_if_alone(path)
    return None


def _create(path: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH)  # so that nobody sweeps it away meanwhile
            stream.write(content)
            stream.flush()
            Path(name).chmod(0o400)
            with contextlib.suppress(FileExistsError):
                os.link(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


def _is_at(path: Path, descriptor: int) -> bool:
    """Return whether the open file is still the one of this name."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _sweep(folder: Path) -> None:
    """Remove the files that no process reads."""
    mine = {path for path, _ in _open}
    for path in folder.iterdir():
        if path not in mine:
            _remove_if_alone(path)


def _remove_if_alone(path: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _unlink_if_alone(path, descriptor)
        finally:
            os.close(descriptor)


def _unlink_if_alone(path: Path, descriptor: int) -> None:
    """Remove the file when no other descriptor holds a lock on it."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(path, descriptor):
            path.unlink()


def _leave() -> None:
    """Remove what this process was the last to read."""
    while _open:
        path, descriptor = _open.pop()
        _unlink_if_alone(path, descriptor)
        os.close(descriptor)


atexit.register(_leave)
