"""What every job has at hand: the job itself, GitHub, a folder to work in, and when to stop."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from layers.errors import Missing
from layers.events import Events, Silent
from layers.manifest import SandboxMode

if TYPE_CHECKING:
    from bot.github.client import Client
    from bot.github.repository import Repository
    from bot.github.transport import Remote
    from bot.jobs.records import Pull
    from bot.wake.jobs import JobSpec

StopReason = Literal["superseded", "stopping"]
JobState = Literal["done", "superseded", "refused", "failed"]
_ID = re.compile(r"[A-Za-z0-9-]{0,40}")


class Superseded(Exception):
    """Another commit is what counts now, or none; the text says so in one line."""


class Refusal(Exception):
    """The job is not to be done; the text says why, in one line for the person who asked.

    `shown` is false where the dashboard is not to tell it: anybody can ask.
    """

    def __init__(self, why: str, *, shown: bool = True) -> None:
        """Keep whether it is shown beside the words."""
        super().__init__(why)
        self.shown = shown


class Stopped(Exception):
    """The worker stops: nothing was decided, and the job goes back to the queue."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a job ended; `summary` is one line for the dashboard, `hint` says what to do.

    `pulls` is what became of every pull request, None where the job does not know; `commit` what
    was measured; `onboarding` the open onboarding pull request. `shown` is false for what nobody
    is to be bothered with.
    """

    state: JobState
    summary: str
    hint: str = ""
    pulls: tuple[Pull, ...] | None = None
    commit: str | None = None
    onboarding: int | None = None
    shown: bool = True


@dataclass(frozen=True, slots=True)
class Home:
    """Where a repository is kept on this machine between jobs, and how it is fetched."""

    remote: Remote
    work: Path
    full_name: str

    @property
    def folder(self) -> Path:
        """The folder of the repository."""
        return self.work / self.full_name.replace("/", "+")


@dataclass
class Context:
    """One job and what it is done with.

    `attempt_of` tells this job from another of the same key: the number of its row in the store,
    or the id of a workflow's run; it stays the same when the job is done again after a kill.
    `stopping` is asked about once a second while a program measures; `clock` gives the time in
    UTC; `fvec` is the argv of the program that measures; `weakest` is the weakest sandbox that
    whoever owns this machine lets code of the repository run in.
    """

    spec: JobSpec
    client: Client
    repository: Repository
    remote: Remote
    work: Path
    attempt_of: str = ""
    events: Events = field(default_factory=Silent)
    stopping: Callable[[], StopReason | None] = lambda: None
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    fvec: Sequence[str] = ()
    weakest: SandboxMode = SandboxMode.PROCESS

    def __post_init__(self) -> None:
        """Refuse an id that is no plain name: a folder is called by it."""
        if not _ID.fullmatch(self.attempt_of):
            raise ValueError(f"not an id of a job: {self.attempt_of!r}")

    @property
    def job(self) -> str:
        """What this job is called, in folders, logs and on the dashboard."""
        return f"{self.spec.key}-{self.attempt_of}" if self.attempt_of else self.spec.key

    @property
    def home(self) -> Home:
        """Where the repository is kept between jobs."""
        return Home(self.remote, self.work, self.repository.full_name)

    @property
    def folder(self) -> Path:
        """The folder of this job alone; it stays where the job was killed or failed."""
        return self.home.folder / "jobs" / self.job

    def now(self) -> str:
        """Return the time as it is written down: ISO 8601, UTC, whole seconds."""
        return self.clock().astimezone(UTC).isoformat(timespec="seconds")


def own_program() -> list[str]:
    """Return the argv of `fvec` as it is installed beside the interpreter that runs now.

    Never `python -m`: in somebody's checkout a folder named bot/ would be imported. Raises Missing.
    """
    program = Path(sys.executable).with_name("fvec")
    if not program.is_file():
        raise Missing(
            f"there is no program {program.name} beside {Path(sys.executable).name}",
            hint="install fvec into the environment of this service: pip install 'fvec[engine]'",
        )
    return [str(program)]
