"""`fvec`: arguments in, one command, one exit code out. The only module that prints.

Exit codes, which are a contract:

    0    done (judge, verify: accepted)
    1    rejected (judge, verify)
    2    wrong usage
    3    invalid input: file, line, column and a hint
    4    something is missing on this machine, with how to get it
    5    inconclusive
    70   our bug, or a tool below us broke
    130  interrupted          141  standard output closed          143  terminated
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from bot.commands import (
    config,
    doctor,
    floor,
    init,
    judge,
    knowledge,
    measure,
    plan,
    publish,
    respond,
    run,
    serve,
    verify,
    walls,
)

if TYPE_CHECKING:
    from bot.commands.outcome import Outcome

COMMANDS = (
    init,
    run,
    plan,
    judge,
    measure,
    verify,
    floor,
    walls,
    publish,
    respond,
    serve,
    config,
    knowledge,
    doctor,
)
INVALID, BUG, INTERRUPTED, CLOSED, TERMINATED = 3, 70, 130, 141, 143
STOPS: dict[type[BaseException], tuple[int, str, None]] = {  # by whom the command was ended
    KeyboardInterrupt: (INTERRUPTED, "interrupted", None),
    SystemExit: (TERMINATED, "terminated", None),
    BrokenPipeError: (CLOSED, "standard output was closed", None),
}
PLAIN_WIDTH = 120  # columns of a table where standard output is no terminal
DESCRIPTION = "Makes model serving faster and proves it: profile, patch, gates, pull request."
EPILOG = (
    "exit codes: 0 done (judge and verify: accepted), 1 rejected, 2 wrong usage, 3 invalid input, "
    "4 something is missing here, 5 inconclusive, 70 our bug, 130 interrupted, 143 terminated"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `argv` is without the program's name."""
    _speak_any_encoding()
    try:
        args = parser().parse_args(argv)
        if "check" in args:  # of arguments that exclude each other
            args.check(args)
    except SystemExit as stop:  # argparse has said why, or printed the help
        return stop.code if isinstance(stop.code, int) else 2
    failure = Failure(as_json=args.json)
    with failure, _terminable():
        # Whatever a library prints belongs to people: standard output holds the result alone.
        with contextlib.redirect_stdout(sys.stderr):
            outcome: Outcome = args.handler(args)
        _show(outcome, as_json=args.json)
        return outcome.exit_code
    return failure.exit_code


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="fvec", description=DESCRIPTION, epilog=EPILOG, allow_abbrev=False
    )
    top.add_argument("--version", action="version", version=f"fvec {_version()}")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add(commands)
    return top


class Failure(contextlib.AbstractContextManager["Failure"]):
    """The one error handler: every exception becomes a message and an exit code."""

    def __init__(self, *, as_json: bool) -> None:
        """Also print a JSON document on standard output if `as_json`."""
        self.exit_code = 0
        self._as_json = as_json

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Report the exception, if there is one, and swallow it."""
        if error is None:
            return False
        self.exit_code, message, hint = _explained(error)
        if isinstance(error, BrokenPipeError):
            # Nobody reads what is still buffered; the interpreter would fail on it at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return True
        sys.stderr.write(f"fvec: {message}\n" + (f"  hint: {hint}\n" if hint else ""))
        if self._as_json:
            named = {"kind": type(error).__name__, "message": message, "hint": hint}
            _print_json({"schema": "fvec.error/1", "exit_code": self.exit_code, "error": named})
        return True


def _explained(error: BaseException) -> tuple[int, str, str | None]:
    """Return exit code, message and hint."""
    from knowledge.yamlfile import YamlError
    from layers.errors import FvecError, InvalidInput

    if isinstance(error, InvalidInput):
        place = f"{error.at}: " if error.at and str(error.at) not in error.message else ""
        return error.exit_code, f"{place}{error.message}", error.hint
    if isinstance(error, FvecError):
        return error.exit_code, error.message, error.hint
    if isinstance(error, YamlError):
        return INVALID, str(error), None  # its text has places and hints of all problems
    if isinstance(error, tuple(STOPS)):
        return next(stop for kind, stop in STOPS.items() if isinstance(error, kind))
    where = _keep_traceback(error)
    name = f"{type(error).__name__}: {error}"
    return BUG, f"this is a bug of fvec: {name}", f"the traceback is in {where}"


def _keep_traceback(error: BaseException) -> Path | str:
    """Write the traceback to a file of its own, or to standard error where that fails."""
    from layers.programs import cache_root

    lines = traceback.format_exception(error)
    folder = cache_root() / "logs"
    path = folder / f"crash-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}.txt"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(lines), encoding="utf-8")
    except OSError:
        sys.stderr.writelines(lines)
        return "the lines above"
    return path


def _show(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        _print_json(outcome.data())
        return
    from rich.console import Console
    from rich.text import Text

    live = sys.stdout.isatty()
    console = Console(
        file=sys.stdout,
        width=None if live else PLAIN_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )
    if live:
        console.print(outcome.view)
        return
    with console.capture() as captured:
        # Text is read by programs too, as the manifest's schema is: it is not wrapped.
        console.print(outcome.view, soft_wrap=isinstance(outcome.view, Text))
    lines = (line.rstrip() for line in captured.get().split("\n"))
    sys.stdout.write("\n".join(lines).strip("\n") + "\n")
    sys.stdout.flush()


def _speak_any_encoding() -> None:
    """Let a terminal or a pipe of another encoding show what it has no letter for as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _print_json(document: object) -> None:
    sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that servers and worktrees are cleaned up."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise SystemExit(TERMINATED)

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _version() -> str:
    from importlib.metadata import version

    return version("fvec")
