import io
from dataclasses import dataclass

from bot.progress import QUIET_S, Lines, shown_on
from layers.events import Silent


@dataclass
class Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_where_there_is_no_terminal_phases_and_notes_are_plain_lines():
    stream, clock = io.StringIO(), Clock()
    lines = Lines(stream, clock)
    lines.phase("noise", "4 pairs of the unmodified stack")
    clock.now_s = 75.9
    lines.note("block 3 void:\nneighbour \x1b[31m[red]0.4 cores")
    lines.phase("profile", "")
    assert stream.getvalue() == (
        "[00:00] noise: 4 pairs of the unmodified stack\n"
        "[01:15]   block 3 void: neighbour [31m[red]0.4 cores\n"
        "[01:15] profile\n"
    )


def test_progress_lines_are_rare():
    stream, clock = io.StringIO(), Clock()
    lines = Lines(stream, clock)
    lines.phase("noise", "")
    for second in range(60):
        clock.now_s = float(second)
        lines.progress(second, 60, "pairs")
    assert QUIET_S == 20
    assert stream.getvalue() == (
        "[00:00] noise\n[00:20] noise: 20 of 60 pairs\n[00:40] noise: 40 of 60 pairs\n"
    )


def test_an_unknown_total_is_not_shown():
    stream, clock = io.StringIO(), Clock()
    lines = Lines(stream, clock)
    lines.phase("build", "")
    clock.now_s = 30
    lines.progress(3, 0, "steps")
    assert stream.getvalue().endswith("[00:30] build: 3 steps\n")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_phases_and_notes_and_is_restored(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with shown_on(stream) as events:
        events.phase("noise [b]", "4 pairs")
        events.progress(1, 4, "pairs [/]")
        events.note("void [red]")
        events.progress(2, 0, "")
    text = stream.getvalue()
    assert "noise [b]" in text
    assert "void [red]" in text
    assert text.rstrip().endswith("\x1b[?25h") or "\x1b[?25h" in text  # the cursor is back


def test_a_pipe_gets_lines():
    stream = io.StringIO()
    with shown_on(stream) as events:
        events.phase("noise", "")
    assert stream.getvalue() == "[00:00] noise\n"


def test_silence_is_an_implementation_too():
    silent = Silent()
    silent.phase("a", "b")
    silent.progress(1, 2, "c")
    silent.note("d")
