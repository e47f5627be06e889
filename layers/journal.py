"""The run's append-only record: one JSON object a line, synced before the run goes on.

Everything that the report says is folded from these lines by `layers.report`, so a run can be
reconstructed from its journal alone, up to the line at which it was killed.

Format history:
    1  first version: {"v", "seq", "at", "kind", "data"}
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from layers.errors import InvalidInput, Location, ToolFailed

VERSION = 1
JOURNAL_FILE = "journal.jsonl"  # its name in a run's results


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the journal; `at` is ISO 8601 in UTC."""

    seq: int
    at: str
    kind: str
    data: Any


def utc_now() -> str:
    """Return the time of day in UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Journal:
    """Appends entries to a file; each is on disk before `append` returns."""

    def __init__(self, path: Path, clock: Callable[[], str] = utc_now) -> None:
        """Open `path` for appending; a new journal must not exist yet."""
        self.path = path
        self._clock = clock
        self.entries: list[Entry] = []
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        except FileExistsError:
            raise InvalidInput(
                f"{path} exists: another run wrote or writes here",
                hint="give --out a new directory, or remove the old one",
            ) from None

    def append(self, kind: str, data: BaseModel | dict[str, Any] | list[str] | str) -> Entry:
        """Write one entry and sync it. Raises ToolFailed when the disk refuses."""
        plain = data.model_dump(mode="json", by_alias=True) if isinstance(data, BaseModel) else data
        entry = Entry(len(self.entries), self._clock(), kind, plain)
        line = json.dumps(
            {"v": VERSION, "seq": entry.seq, "at": entry.at, "kind": kind, "data": plain},
            allow_nan=False,
            separators=(",", ":"),
        )
        whole = os.fstat(self._fd).st_size
        try:
            _write_all(self._fd, line.encode() + b"\n")
            os.fsync(self._fd)
        except OSError as error:
            with suppress(OSError):  # a torn line may only be the last one
                os.ftruncate(self._fd, whole)
            raise ToolFailed(f"the journal {self.path} cannot be written: {error}") from error
        self.entries.append(entry)
        return entry

    def close(self) -> None:
        """Close the file; the entries stay readable."""
        os.close(self._fd)


def _write_all(descriptor: int, payload: bytes) -> None:
    """Write every byte: `os.write` may take fewer on a nearly full disk."""
    while payload:
        payload = payload[os.write(descriptor, payload) :]


def read(path: Path) -> list[Entry]:
    """Read a journal. A torn last line (killed while writing) is dropped; any other is an error."""
    entries: list[Entry] = []
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        torn_is_fine = number == len(lines)  # the text after the last newline
        if not line:
            continue
        try:
            raw = json.loads(line)
            if raw["v"] != VERSION or raw["seq"] != len(entries):
                raise ValueError(f"version {raw['v']}, sequence {raw['seq']}")
            entries.append(Entry(raw["seq"], raw["at"], raw["kind"], raw["data"]))
        except (ValueError, KeyError, TypeError) as error:
            if torn_is_fine:
                break
            raise InvalidInput(
                f"not a journal line: {error}",
                at=Location(path, number),
                hint="the file was edited or is of another version of fvec",
            ) from error
    return entries
