"""What people see of a long run: a live line on a terminal, plain lines anywhere else.

Everything goes to the stream that is given, which is standard error: standard output belongs to
the result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from bot.render.text import one_line

if TYPE_CHECKING:
    from layers.events import Events

QUIET_S = 20.0  # between two progress lines of one phase where there is no terminal
DETAIL_LIMIT = 160


class Lines:
    """One line per phase and note, and a progress line now and then."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        """Write to `stream`; times count from now."""
        self._stream = stream
        self._clock = clock
        self._start = self._said = clock()
        self._name = ""

    def phase(self, name: str, detail: str) -> None:
        """Write the phase."""
        self._name = one_line(name)
        self._line(f"{self._name}: {one_line(detail)}" if detail else self._name)

    def progress(self, done: float, total: float, what: str) -> None:
        """Write how far the phase is, at most every `QUIET_S` seconds."""
        if self._clock() - self._said >= QUIET_S:
            of = f" of {total:,.0f}" if total > 0 else ""
            self._line(f"{self._name}: {done:,.0f}{of} {one_line(what)}")

    def note(self, text: str) -> None:
        """Write the note."""
        self._line(f"  {one_line(text)}")

    def _line(self, text: str) -> None:
        self._said = self._clock()
        minutes, seconds = divmod(int(self._said - self._start), 60)
        self._stream.write(f"[{minutes:02d}:{seconds:02d}] {text}\n")
        self._stream.flush()


class Live:
    """A line with spinner and bar at the bottom; finished phases and notes scroll above it."""

    def __init__(self, progress: Progress) -> None:
        """Drive one rich progress display."""
        self._progress = progress
        self._task = progress.add_task("starting", total=None, what="")

    def phase(self, name: str, detail: str) -> None:
        """Print the phase and start its line."""
        head = Text(one_line(name), style="bold")
        self._progress.console.print(head.append(f"  {one_line(detail)}", style="not bold dim"))
        self._progress.reset(self._task, total=None, description=one_line(name), what="")

    def progress(self, done: float, total: float, what: str) -> None:
        """Move the bar."""
        self._progress.update(
            self._task,
            completed=done,
            total=total if total > 0 else None,
            what=one_line(what, DETAIL_LIMIT),
        )

    def note(self, text: str) -> None:
        """Print the note above the line."""
        self._progress.console.print(Text(f"  {one_line(text)}"))


@contextmanager
def shown_on(stream: TextIO) -> Iterator[Events]:
    """Yield `Events` that show a run on `stream`; the terminal is restored on the way out."""
    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        yield Lines(stream)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[what]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield Live(progress)
