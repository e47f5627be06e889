"""Run one confined program to its end with its output in a log: builds, and other small tools."""

from __future__ import annotations

import subprocess
from pathlib import Path

from layers.errors import ToolFailed
from layers.programs import Command, describe_log
from layers.sandbox.base import Confinement, Ending
from layers.sandbox.box import LimitReached, Sandbox

_ENDED = {
    Ending.MEMORY_LIMIT: "used more memory than it may",
    Ending.PROCESS_LIMIT: "started more processes or threads than it may",
    Ending.OUTPUT_LIMIT: "wrote more to its log or to its folders than it may",
}


def run_logged(
    sandbox: Sandbox, command: Command, log: Path, what: str, confinement: Confinement
) -> None:
    """Run `command` confined, output appended to `log`; all that it started is gone afterwards.

    Raises LimitReached, with the limit as `reason`, when one ended it (`timeout_s` is one), and
    ToolFailed when it cannot be started, crashes or exits non-zero. Both name `what`, the log
    and its last lines.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as stream:
        stream.write(f"$ {' '.join(command.argv)}\n".encode())
        stream.flush()
        try:
            with sandbox.start(
                command.argv,
                cwd=command.cwd,
                env=command.env,
                confinement=confinement,
                stdout=stream,
                stderr=subprocess.STDOUT,
            ) as jail:
                code = jail.wait(command.timeout_s)
                ending = jail.ending()
        except ToolFailed as error:
            raise ToolFailed(f"{what}: {error.message}\n{describe_log(log)}") from error
    _check(what, code, ending, command.timeout_s, log)


def _check(what: str, code: int | None, ending: Ending, timeout_s: float, log: Path) -> None:
    """Raise what the ending calls for."""
    if code == 0:
        return
    if ending is Ending.TIME_LIMIT:
        words = f"ran longer than {timeout_s:g} s"
    else:
        words = _ENDED.get(ending, f"ended with exit code {code}")
    message = f"{what} {words}\n{describe_log(log)}"
    if ending in (Ending.EXITED, Ending.CRASHED):
        raise ToolFailed(message)
    raise LimitReached(message, ending)
