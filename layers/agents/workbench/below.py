"""Files below one folder, reached part by part and never through a link.

A program may work in the folder while we look into it: what was a file when it was checked may be
a link when it is used. So nothing is reached by a path. Each part is opened below the one before
it, a link is not followed, and what was opened is what is looked at. A file is written beside its
place and moved there: nothing is ever written through what stands in it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

MOST_DEEP = 64  # parts of a path: one descriptor is open for each
_CHUNK = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe is not waited for, and a terminal does not become ours.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ITSELF = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_FOLDER = frozenset({errno.ELOOP, errno.ENOTDIR})  # what a link, or a file, answers


class Kind(StrEnum):
    """What lies at a path; the values are said to people."""

    FILE = "a file"
    FOLDER = "a folder"
    LINK = "a symbolic link"
    SPECIAL = "a pipe, a socket or a device"


class NotPlain(Exception):
    """On the way to a file, or in its place, lies something else."""

    def __init__(self, part: str, kind: Kind) -> None:
        """Keep what it is; `part` is its own name."""
        super().__init__(f"{part!r} is {kind}")
        self.kind = kind


class TooLarge(Exception):
    """A file is longer than what may be read of it."""

    def __init__(self, size: int) -> None:
        """Keep how long it is, in bytes."""
        super().__init__(f"{size:,} bytes")
        self.size = size


class TooMany(Exception):
    """A folder holds more than is looked at."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What lies below a folder; of folders, those alone that were not looked into."""

    path: str
    kind: Kind
    size: int  # of a file, in bytes


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds, by its length and its digest."""

    size: int
    digest: str


class Folder:
    """One folder, held open. Paths are sequences of plain names, without `.` and `..`.

    Raises NotPlain where a link, or what is no plain file, lies on the way, and OSError.
    """

    def __init__(self, path: Path, spare: Path | None = None) -> None:
        """Open it; files are written in `spare`, on the same disk, until they are whole.

        By default that is the folder itself.
        """
        self._fd = os.open(path, _FOLDER)
        self._spare = os.open(path if spare is None else spare, _FOLDER)

    def close(self) -> None:
        """Let go of the folder; what lies in it stays."""
        os.close(self._fd)
        os.close(self._spare)

    def kind(self, parts: Sequence[str]) -> Kind | None:
        """Return what lies at a path, None where nothing does."""
        *above, name = parts
        try:
            with self._folder(above) as folder:
                return _kind(folder, name)
        except FileNotFoundError:
            return None

    def read(self, parts: Sequence[str], most: int) -> bytes:
        """Return the content of a plain file; TooLarge where it has more than `most` bytes."""
        with self.opened(parts) as (file, status):
            if status.st_size > most:
                raise TooLarge(status.st_size)
            data = file.read(most + 1)  # it may grow while it is read
        if len(data) > most:
            raise TooLarge(len(data))
        return data

    def content(self, parts: Sequence[str]) -> Content:
        """Return length and digest of a plain file."""
        with self.opened(parts) as (file, _):
            return _copied(file, None)

    @contextmanager
    def opened(self, parts: Sequence[str]) -> Iterator[tuple[BinaryIO, os.stat_result]]:
        """Open a plain file for reading; yields it with what the system says of it."""
        *above, name = parts
        with self._folder(above) as folder:
            descriptor = _opened(folder, name)
        with os.fdopen(descriptor, "rb") as file:
            yield file, os.fstat(descriptor)

    def write(self, parts: Sequence[str], data: bytes, mode: int) -> None:
        """Put a file in its place, with the folders above it, whatever file or link lies there."""
        with self._placed(parts, mode) as file:
            file.write(data)

    def copy(self, parts: Sequence[str], source: BinaryIO, mode: int) -> Content:
        """Put a copy of an open file in its place, as `write`; return what was copied."""
        with self._placed(parts, mode) as file:
            return _copied(source, file)

    def remove(self, parts: Sequence[str]) -> None:
        """Remove a file, or a link itself."""
        *above, name = parts
        with self._folder(above) as folder:
            os.unlink(name, dir_fd=folder)

    def walk(
        self, parts: Sequence[str], most: int, unread: Callable[[str], bool], unseen: str
    ) -> list[Entry]:
        """Return all that lies below a folder, sorted; TooMany for more than `most`.

        Folders whose name `unread` holds for are not looked into, nor those too deep; what is
        called `unseen` is left out.
        """
        walk = _Walk(most, unread, unseen)
        with self._folder(parts) as folder:
            walk.look(folder, tuple(parts))
        return sorted(walk.found, key=lambda entry: entry.path)

    def empty(self) -> None:
        """Remove all that lies in it, however deep it is and whoever may enter it.

        Folders of a folder move up before it goes, so that no depth is too much.
        """
        self.let_in()
        _emptied(self._fd)

    def let_in(self) -> None:
        """Give the folder itself back to its owner, whoever took the right to enter it."""
        os.fchmod(self._fd, 0o755)

    def clear(self, name: str) -> None:
        """Remove whatever lies at a name in the folder itself, as `empty` does; or nothing does."""
        self.let_in()
        kind = _kind(self._fd, name)
        if kind is None:
            return
        if kind is Kind.FOLDER:
            _let_in(self._fd, name)  # or it could not be moved
        with _entered_anew(self._spare, secrets.token_hex(16)) as folder:
            os.rename(name, name, src_dir_fd=self._fd, dst_dir_fd=folder)
            _emptied(folder)

    @contextmanager
    def _folder(self, parts: Sequence[str], *, make: bool = False) -> Iterator[int]:
        """Yield a descriptor of a folder below this one."""
        folder = os.open(".", _FOLDER, dir_fd=self._fd)
        try:
            for part in parts:
                below = _entered(folder, part, make=make)
                os.close(folder)
                folder = below
            yield folder
        finally:
            os.close(folder)

    @contextmanager
    def _placed(self, parts: Sequence[str], mode: int) -> Iterator[BinaryIO]:
        """Yield a new file, which is moved to its place once it is whole."""
        *above, name = parts
        new = secrets.token_hex(16)
        try:
            with os.fdopen(os.open(new, _NEW, 0o600, dir_fd=self._spare), "wb") as file:
                yield file
                os.fchmod(file.fileno(), mode)
            with self._folder(above, make=True) as folder:
                os.rename(new, name, src_dir_fd=self._spare, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(new, dir_fd=self._spare)
            raise


@dataclass
class _Walk:
    """One look at all that lies below a folder."""

    left: int  # entries that may still be counted
    unread: Callable[[str], bool]
    unseen: str
    found: list[Entry] = field(default_factory=list, init=False)

    def look(self, folder: int, parts: tuple[str, ...]) -> None:
        """Look into one folder, then into those in it."""
        for name, status in self._listed(folder):
            path = (*parts, name)
            kind = _kind_of(status.st_mode)
            if kind is Kind.FOLDER and len(path) < MOST_DEEP and not self.unread(name):
                below = _entered(folder, name, make=False)
                try:
                    self.look(below, path)
                finally:
                    os.close(below)
            else:
                self.found.append(Entry("/".join(path), kind, status.st_size))

    def _listed(self, folder: int) -> list[tuple[str, os.stat_result]]:
        """Return what one folder holds; counted as it comes, so that no count is too much."""
        listed: list[tuple[str, os.stat_result]] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name == self.unseen:
                    continue
                self.left -= 1
                if self.left < 0:
                    raise TooMany
                with suppress(FileNotFoundError):  # gone meanwhile
                    listed.append((entry.name, entry.stat(follow_symlinks=False)))
        return listed


def _entered(folder: int, part: str, *, make: bool) -> int:
    """Return a descriptor of a folder in `folder`; made where there is none, if `make` says so."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(part, 0o755, dir_fd=folder)
    try:
        return os.open(part, _FOLDER, dir_fd=folder)
    except OSError as error:
        if error.errno in _NO_FOLDER and (kind := _kind(folder, part)) is not None:
            raise NotPlain(part, kind) from error
        raise


def _opened(folder: int, name: str) -> int:
    """Return a descriptor of a plain file in `folder`.

    It is looked at before it is opened, for a device may act on that, and again afterwards.
    """
    _check_plain(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode, name)
    try:
        descriptor = os.open(name, _FILE, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotPlain(name, Kind.LINK) from error
        raise
    try:
        _check_plain(os.fstat(descriptor).st_mode, name)
    except NotPlain:
        os.close(descriptor)
        raise
    return descriptor


def _copied(source: BinaryIO, target: BinaryIO | None) -> Content:
    digest = hashlib.sha256()
    size = 0
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
        if target is not None:
            target.write(chunk)
    return Content(size, digest.hexdigest())


def _kind(folder: int, name: str) -> Kind | None:
    try:
        return _kind_of(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return None


def _kind_of(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return Kind.FILE
    if stat.S_ISDIR(mode):
        return Kind.FOLDER
    return Kind.LINK if stat.S_ISLNK(mode) else Kind.SPECIAL


def _check_plain(mode: int, name: str) -> None:
    kind = _kind_of(mode)
    if kind is not Kind.FILE:
        raise NotPlain(name, kind)


def _names(folder: int) -> list[str]:
    return os.listdir(folder)


@contextmanager
def _entered_anew(folder: int, part: str) -> Iterator[int]:
    """Yield a descriptor of a new folder in `folder`, which is to be empty again afterwards."""
    os.mkdir(part, 0o700, dir_fd=folder)
    below = os.open(part, _FOLDER, dir_fd=folder)
    try:
        yield below
    finally:
        os.close(below)
        os.rmdir(part, dir_fd=folder)


def _emptied(folder: int) -> None:
    while names := _names(folder):
        for name in names:
            _removed(folder, name)


def _removed(top: int, name: str) -> None:
    """Remove one entry of `top`; of a folder, the folders in it become entries of `top`."""
    if _kind(top, name) is not Kind.FOLDER:
        os.unlink(name, dir_fd=top)
        return
    _let_in(top, name)
    inner = os.open(name, _FOLDER, dir_fd=top)
    try:
        for child in _names(inner):
            if _kind(inner, child) is Kind.FOLDER:
                _let_in(inner, child)  # or it could not be moved
                os.rename(child, secrets.token_hex(16), src_dir_fd=inner, dst_dir_fd=top)
            else:
                os.unlink(child, dir_fd=inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def _let_in(folder: int, name: str) -> None:
    """Give a folder back to its owner; a link in its place is not followed."""
    itself = os.open(name, _ITSELF, dir_fd=folder)
    try:
        Path(f"/proc/self/fd/{itself}").chmod(0o700)
    finally:
        os.close(itself)
