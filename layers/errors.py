"""Errors that a person can act on, and the exit code of each.

FvecError
+-- InvalidInput   3   a manifest, card, patch, pbtxt or traffic file is wrong: file, line, column, hint
+-- Missing        4   something is not on this machine: its name and how to get it
+-- Inconclusive   5   the measurement could not decide
+-- ToolFailed     70  a tool of ours or below us broke; never a verdict on a candidate
+-- RunStopped     the run itself cannot go on, whatever the candidate: never swallowed by the loop
    +-- JournalBroken    70  also ToolFailed: the journal cannot be written
    +-- JournalMismatch  3   also InvalidInput: a run cannot be resumed on what is here now
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class FvecError(Exception):
    """Base of every error whose text is written for the person at the terminal."""

    exit_code = 70

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        """Keep the message and an optional hint that says what to do next."""
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """Return the message, with the hint on a line of its own."""
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a file; line and column count from 1."""

    path: Path
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        """Return `path:line:column`, as editors understand it."""
        parts = [str(self.path), *(str(n) for n in (self.line, self.column) if n is not None)]
        return ":".join(parts)


class InvalidInput(FvecError):
    """Input from outside is wrong; nothing was changed."""

    exit_code = 3

    def __init__(
        self, message: str, *, at: Location | None = None, hint: str | None = None
    ) -> None:
        """Prefix the message with the place it is about."""
        super().__init__(f"{at}: {message}" if at else message, hint=hint)
        self.at = at


class Missing(FvecError):
    """Something that the command needs is not on this machine."""

    exit_code = 4


class Inconclusive(FvecError):
    """The measurement ended without an answer, which is an answer of its own."""

    exit_code = 5


class ToolFailed(FvecError):
    """A program that we started broke; the log that says why is named in the message."""

    exit_code = 70


class RunStopped(FvecError):
    """The run cannot go on, whatever its candidate is; the loop lets it through."""


class JournalBroken(ToolFailed, RunStopped):
    """The journal cannot be written; what it holds is whole."""


class JournalMismatch(InvalidInput, RunStopped):
    """What is here now is not what the journal was written on; the journal stays as it is."""
