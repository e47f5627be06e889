"""What each conversation and each program said: one file each, redacted, one line a piece.

A transcript is evidence of how a candidate came about. What stands in it came from models, programs
and repositories: data, to be shown quoted.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from layers.agents.service import lines
from layers.errors import ToolFailed
from layers.record.journal import utc_now
from layers.redact import redact
from layers.story import Role

MOST_TEXT = 1_000_000  # characters of one text: more than the longest reply has
MOST_LINE = 16 * 2**20  # bytes
MOST_DEPTH = 60
_NUMBERED = re.compile(r"([0-9]+)-")
_NOTE = 60  # characters that `bounded` needs to say what it left out


def bounded(text: str, most: int) -> str:
    """Return the text, or its beginning and how much was left out: at most `most` characters."""
    if len(text) <= most:
        return text
    kept = max(0, most - _NOTE)
    return f"{text[:kept]}\n[{len(text) - kept:,} more characters were left out]"


class Transcripts:
    """The transcripts of a run, numbered in the order in which they began."""

    def __init__(self, folder: Path, secrets: Sequence[str]) -> None:
        """Write into `folder`, which lies in the results; `secrets` are taken out of all text."""
        self._folder = folder
        self._secrets = tuple(secrets)

    def begin(self, role: Role) -> Transcript:
        """Begin the next one; raises ToolFailed when the disk refuses."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._new(role)
        except OSError as error:
            raise ToolFailed(
                f"no transcript can be made in {self._folder}: {error.strerror or error}"
            ) from error
        return Transcript(path, self._secrets)

    def _new(self, role: Role) -> Path:
        """Make the next file; no file of an earlier process is written to again."""
        slug = role.value.replace(" ", "-")
        here = (_NUMBERED.match(path.name) for path in self._folder.iterdir())
        number = max((int(found[1]) for found in here if found), default=0) + 1
        path = self._folder / f"{number:03d}-{slug}.jsonl"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        return path


class Transcript:
    """One conversation, or what one program printed."""

    def __init__(self, path: Path, secrets: Sequence[str]) -> None:
        """Append to a file; `Transcripts.begin` makes it."""
        self._path = path
        self._secrets = secrets

    @property
    def name(self) -> str:
        """Where it is, relative to the results folder: `transcripts/003-planner.jsonl`."""
        return f"{self._path.parent.name}/{self._path.name}"

    def add(self, kind: str, content: object) -> None:
        """Write one piece, redacted and bounded; it is on disk before this returns.

        `content` is plain data, a model, or anything that says by `str` what it is. Raises
        ToolFailed when the disk refuses: nothing may follow from what is not told.
        """
        line = self._line(kind, self._plain(content, 0))
        if len(line) > MOST_LINE:
            line = self._line(kind, f"[{len(line):,} bytes were left out]")
        try:
            lines.append(self._path, line)
        except OSError as error:
            raise ToolFailed(
                f"the transcript {self._path} cannot be written: {error.strerror or error}"
            ) from error

    def _line(self, kind: str, content: object) -> bytes:
        entry = {"at": utc_now(), "kind": kind, "content": content}
        written = json.dumps(entry, ensure_ascii=False)
        # Once more, now that names stand beside what they name: "password": "..."
        text = redact(written, self._secrets)
        try:
            json.loads(text)
        except ValueError:  # a secret that looks like a number, say: each text is redacted anyway
            text = written
        return text.encode("utf-8", "backslashreplace")  # a lone surrogate, as JSON writes it

    def _plain(self, content: object, depth: int) -> Any:  # noqa: ANN401  # as JSON has it
        """Return what JSON can hold, each text redacted in its own form."""
        if content is None or isinstance(content, bool | int):
            return content
        if isinstance(content, float) and math.isfinite(content):
            return content
        if depth < MOST_DEPTH:
            if isinstance(content, BaseModel):
                content = content.model_dump(mode="json", by_alias=True)
            if isinstance(content, Mapping):
                return {str(k): self._plain(v, depth + 1) for k, v in content.items()}
            if isinstance(content, list | tuple):
                return [self._plain(value, depth + 1) for value in content]
        text = content.decode("utf-8", "replace") if isinstance(content, bytes) else str(content)
        return bounded(redact(text, self._secrets), MOST_TEXT)
