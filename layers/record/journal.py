"""The run's append-only record: one JSON object a line, synced before the run goes on.

Everything that the report says is folded from these lines by `layers.loop.report`, so a run can be
reconstructed from its journal alone, up to the line at which it was killed; `layers.loop.resume` says
how it goes on from there. Each line carries a digest of itself and of all lines before it, so
that an edited journal is told from a torn one.

Format history:
    1  first version: {"v", "seq", "at", "kind", "data"}
    2  "sum" added; the entries answer every question of the run, so that it can be resumed
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel

from layers.errors import InvalidInput, JournalBroken, Location
from layers.record.synced import sync_folder, write_all

VERSION = 2
READABLE = (1, 2)
JOURNAL_FILE = "journal.jsonl"  # its name in a run's results
_RESUME = "when that is mended, `fvec run --resume` goes on from here"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the journal; `at` is ISO 8601 in UTC."""

    seq: int
    at: str
    kind: str
    data: Any
    v: int = VERSION


def utc_now() -> str:
    """Return the time of day in UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Journal:
    """Appends entries to a file; each is on disk before `append` returns."""

    def __init__(self, path: Path, clock: Callable[[], str] = utc_now) -> None:
        """Open `path` for appending; a new journal must not exist yet."""
        self.path = path
        self._clock = clock
        self._sum = ""
        self._broken: JournalBroken | None = None
        self.entries: list[Entry] = []
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        except FileExistsError:
            raise InvalidInput(
                f"{path} exists: another run wrote or writes here",
                hint="give --out a new directory, or remove the old one",
            ) from None
        except OSError as error:
            raise JournalBroken(f"{path} cannot be made: {error.strerror}") from error
        sync_folder(path.parent)

    @classmethod
    def reopen(cls, path: Path, clock: Callable[[], str] = utc_now) -> Self:
        """Open the journal of a run that was killed, after its last whole entry.

        Raises InvalidInput as `read` does, and for a journal of an older version.
        """
        entries = read(path)
        if any(entry.v != VERSION for entry in entries):
            raise InvalidInput(
                f"the journal is of version {entries[0].v}, and only {VERSION} can be resumed",
                at=Location(path, 1),
                hint="run again with another --out, or remove this folder",
            )
        self = cls.__new__(cls)
        self.path, self._clock, self._broken, self.entries = path, clock, None, entries
        lines = path.read_bytes().split(b"\n")
        self._sum = json.loads(lines[len(entries) - 1])["sum"] if entries else ""
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
            whole = b"".join(line + b"\n" for line in lines[: len(entries)])
            if len(whole) > path.stat().st_size:  # whole but for its line break
                write_all(self._fd, b"\n")
            os.ftruncate(self._fd, len(whole))
            os.fsync(self._fd)
        except OSError as error:
            raise JournalBroken(
                f"the journal {path} cannot be written: {error.strerror}", hint=_RESUME
            ) from error
        return self

    def append(self, kind: str, data: BaseModel | dict[str, Any] | list[str] | str) -> Entry:
        """Write one entry and sync it.

        Raises JournalBroken when the disk refuses, or when the file is no longer there; from then
        on always: a run must not go on without the line that is missing.
        """
        if self._broken is not None:
            raise self._broken
        plain = data.model_dump(mode="json", by_alias=True) if isinstance(data, BaseModel) else data
        entry = Entry(len(self.entries), self._clock(), kind, plain)
        line, self_sum = _line(entry, self._sum)
        try:
            self._write(line)
        except OSError as error:
            self._broken = JournalBroken(
                f"the journal {self.path} cannot be written: {error.strerror or error}",
                hint=_RESUME,
            )
            raise self._broken from error
        self._sum = self_sum
        self.entries.append(entry)
        return entry

    def close(self) -> None:
        """Close the file; the entries stay readable."""
        os.close(self._fd)

    def _write(self, line: bytes) -> None:
        """Append a whole line, or none of it."""
        held = os.fstat(self._fd)
        here = self.path.stat()
        if (here.st_dev, here.st_ino) != (held.st_dev, held.st_ino):
            raise OSError(0, "another file has taken its place")
        try:
            write_all(self._fd, line)
            os.fsync(self._fd)
        except OSError:
            with suppress(OSError):  # a torn line may only be the last one
                os.ftruncate(self._fd, held.st_size)
            raise


def _line(entry: Entry, before: str) -> tuple[bytes, str]:
    """Return an entry's line and its digest, which follows from the line before it."""
    head = {"v": entry.v, "seq": entry.seq, "at": entry.at, "kind": entry.kind, "data": entry.data}
    own = _digest(head, before)
    text = json.dumps({**head, "sum": own}, allow_nan=False, separators=(",", ":"))
    return text.encode() + b"\n", own


def _digest(head: dict[str, Any], before: str) -> str:
    text = json.dumps(head, allow_nan=False, separators=(",", ":"))
    return hashlib.sha256(f"{before}{text}".encode()).hexdigest()[:16]


def read(path: Path) -> list[Entry]:
    """Read a journal. A torn last line (killed while writing) is dropped; any other is an error."""
    entries: list[Entry] = []
    before = ""
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        torn_is_fine = number == len(lines)  # the text after the last newline
        try:
            raw = json.loads(line)
            entry, before = _checked(raw, len(entries), before)
            entries.append(entry)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if torn_is_fine:
                break
            raise InvalidInput(
                f"not a journal line: {error}",
                at=Location(path, number),
                hint="the file was edited or is of another version of fvec",
            ) from error
    return entries


def _checked(raw: dict[str, Any], seq: int, before: str) -> tuple[Entry, str]:
    """Return an entry and its digest; ValueError, KeyError or TypeError where it is not ours."""
    if raw["v"] not in READABLE or raw["seq"] != seq:
        raise ValueError(f"version {raw['v']}, sequence {raw['seq']}")
    entry = Entry(raw["seq"], raw["at"], raw["kind"], raw["data"], raw["v"])
    if entry.v == 1:  # had no digests
        return entry, ""
    own = str(raw.pop("sum"))
    if own != _digest(raw, before):
        raise ValueError("it was changed after it was written")
    return entry, own
