"""What a long run tells its caller while it works.

The engine never prints. It reports phases, progress and notes to an `Events`; the command line
shows them, a service logs them, a test collects them.
"""

from __future__ import annotations

from typing import Protocol


class Events(Protocol):
    """Receives what a run is doing now; every method returns at once and never raises."""

    def phase(self, name: str, detail: str) -> None:
        """Say that a new phase begins, e.g. `phase("noise", "4 pairs of the unmodified stack")`.

        The progress of the previous phase, if any, ends here.
        """

    def progress(self, done: float, total: float, what: str) -> None:
        """Say how far the current phase is: `done` of `total` units named `what`, e.g. "pairs".

        `total` may be zero or less when it is not known.
        """

    def note(self, text: str) -> None:
        """Say one thing worth keeping, on one line: a verdict, a void block, a pull request."""


class Silent:
    """Events that nobody reads."""

    def phase(self, name: str, detail: str) -> None:
        """Ignore the phase."""

    def progress(self, done: float, total: float, what: str) -> None:
        """Ignore the progress."""

    def note(self, text: str) -> None:
        """Ignore the note."""
