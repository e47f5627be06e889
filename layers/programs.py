"""Programs that we start: argv without a shell, a scrubbed environment, a bound in time, a log.

Also the user's cache folder and the lock that keeps two of our processes from filling one entry.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from layers.errors import ToolFailed

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)
_LOG_TAIL_LINES = 15
_LOG_TAIL_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Command:
    """One program to run: argv, where, with which environment and for how long at most."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    timeout_s: float


def cache_root() -> Path:
    """Return the user's cache folder for fvec (`$XDG_CACHE_HOME/fvec` or `~/.cache/fvec`)."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    # The base directory specification says that a relative value is to be ignored.
    base = Path(configured) if Path(configured).is_absolute() else Path.home() / ".cache"
    return base / "fvec"


def scrubbed_environment(*, path_first: Path | None = None, home: Path) -> dict[str, str]:
    """Return an environment without anything of ours: no credentials, proxies or Python settings.

    `path_first` goes before the system's folders on PATH; `home` is what programs see as HOME.
    """
    path = f"{path_first}:{SYSTEM_PATH}" if path_first else SYSTEM_PATH
    return {
        "PATH": path,
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
    }


def run_logged(command: Command, log: Path, what: str) -> None:
    """Run `command` in a process group of its own, output appended to `log`.

    Raises ToolFailed, naming `what`, the log and its last lines, when the program cannot be
    started, exits non-zero or outlives `timeout_s`. The whole group is gone afterwards.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as stream:
        stream.write(f"$ {' '.join(command.argv)}\n".encode())
        stream.flush()
        try:
            process = subprocess.Popen(
                list(command.argv),
                cwd=command.cwd,
                env=dict(command.env),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise ToolFailed(f"{what} could not be started: {error}") from error
        code = _wait(process, command.timeout_s)
    if code is None:
        raise ToolFailed(f"{what} ran longer than {command.timeout_s:g} s\n{describe_log(log)}")
    if code != 0:
        raise ToolFailed(f"{what} ended with exit code {code}\n{describe_log(log)}")


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> int | None:
    """Wait for the program, then end its group; None when the time was up."""
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        kill_group(process.pid)
        process.wait()


def kill_group(group: int) -> None:
    """Send SIGKILL to a process group that we started; gone already is fine."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def describe_log(log: Path) -> str:
    """Return the last lines of a log, indented, and where it lies."""
    lines = tail(log)
    return "\n".join([*(f"  | {line}" for line in lines), f"  log: {log}"])


def tail(log: Path, lines: int = _LOG_TAIL_LINES) -> list[str]:
    """Return the last lines of a text file; empty when there is none."""
    try:
        with log.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - _LOG_TAIL_BYTES))
            text = stream.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return []
    return [line for line in text.splitlines() if line.strip()][-lines:]


@contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Hold an advisory lock between processes for the time of the block; waits for its turn."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
