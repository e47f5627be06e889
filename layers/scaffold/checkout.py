"""The files of a serving repository, read without leaving it; nothing of it is executed.

Links that lead out of the repository are not followed, and no linked folder is walked through.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from layers.errors import InvalidInput, Location

MAX_ENTRIES = 200_000
MAX_TEXT_BYTES = 1 << 20
_PRUNED = frozenset(
    {
        ".git",
        ".fvec",
        ".hg",
        ".svn",
        ".venv",
        "venv",
        "node_modules",
        "site-packages",
        "__pycache__",
    }
)


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something of the repository that was not read, and why."""

    path: str  # relative to the root
    reason: str


@dataclass(frozen=True, slots=True)
class Checkout:
    """A repository's folders and plain files, by path relative to its root."""

    root: Path  # resolved
    folders: dict[str, list[str]]  # folder to the names of its files, sorted; "" is the root
    inner: dict[str, list[str]]  # folder to the names of the folders in it, sorted
    skipped: list[Skipped] = field(default_factory=list)

    def has(self, path: str) -> bool:
        """Return whether `path` is a plain file that may be read."""
        folder, _, name = path.rpartition("/")
        return name in self.folders.get(folder, ())

    def below(self, folder: str) -> list[str]:
        """Return the names of the folders directly inside `folder`, sorted."""
        return self.inner.get(folder, [])

    def data(self, path: str, limit: int = MAX_TEXT_BYTES) -> bytes:
        """Return a file's bytes; InvalidInput where it cannot be read or is larger than `limit`."""
        place = Location(Path(path))
        try:
            with (self.root / path).open("rb") as file:
                content = file.read(limit + 1)
        except OSError as error:
            raise InvalidInput(f"cannot be read: {error.strerror}", at=place) from error
        if len(content) > limit:
            raise InvalidInput(f"is larger than {limit} bytes", at=place)
        return content

    def text(self, path: str) -> str:
        """Return a file's text; InvalidInput where it is not readable UTF-8."""
        try:
            return self.data(path).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidInput("is not UTF-8", at=Location(Path(path))) from error


def join(folder: str, name: str) -> str:
    """Return the path of `name` inside `folder`, both relative to the root."""
    return f"{folder}/{name}" if folder else name


def walk(root: Path) -> Checkout:
    """Return the folders and plain files of a repository.

    Raises InvalidInput when it holds more than MAX_ENTRIES of them.
    """
    found = Checkout(root.resolve(), {}, {})
    entries = 0
    for place, folders, files in os.walk(found.root, followlinks=False):
        here = Path(place).relative_to(found.root).as_posix()
        here = "" if here == "." else here
        folders[:] = sorted(name for name in folders if name not in _PRUNED)
        entries += len(folders) + len(files)
        if entries > MAX_ENTRIES:
            raise InvalidInput(
                f"{root} holds more than {MAX_ENTRIES} files",
                hint="a serving repository holds models and code, not data; give a smaller one",
            )
        found.folders[here] = [name for name in sorted(files) if _kept(found, here, name)]
        walked = [name for name in folders if _walked(found, here, name)]
        linked = [name for name in folders if join(here, name) in found.folders]
        found.inner[here] = sorted([*walked, *linked])
        folders[:] = walked
    return found


def _kept(found: Checkout, folder: str, name: str) -> bool:
    """Return whether a file may be read; note why not."""
    path = join(folder, name)
    target = found.root / path
    if not name.isprintable() or "\\" in name:
        found.skipped.append(Skipped(repr(path), "its name has characters that are not printable"))
    elif target.is_symlink() and not _real(target).is_relative_to(found.root):
        found.skipped.append(Skipped(path, "a link that leads out of the repository"))
    else:
        return target.is_file()
    return False


def _walked(found: Checkout, folder: str, name: str) -> bool:
    """Return whether to walk through a folder; of a linked one only the files are listed."""
    path = join(folder, name)
    target = found.root / path
    if not name.isprintable() or "\\" in name:
        found.skipped.append(Skipped(repr(path), "its name has characters that are not printable"))
        return False
    if not target.is_symlink():
        return True
    real = _real(target)
    if not real.is_relative_to(found.root):
        found.skipped.append(Skipped(path, "a link that leads out of the repository"))
    elif real.is_dir() and not found.root.is_relative_to(real):
        names = sorted(file.name for file in real.iterdir())
        found.folders[path] = [name for name in names if _kept(found, path, name)]
    return False


def _real(link: Path) -> Path:
    """Return where a link ends; a loop of links ends at itself."""
    return Path(os.path.realpath(link))
