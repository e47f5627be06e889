"""What jobs leave on the branch `fvec/evidence` for later ones: the last runs, and what reruns said.

    runs/runs.json                 the last jobs, and what became of each pull request
    pulls/<branch>/history.json    what was said about one of our pull requests, newest first
    judged/<number>/history.json   the same of a pull request of somebody else

A record is found by the job that made it, so that a job that is done again adds none. Somebody who
may write to the repository may have edited a file: what is no record of ours is started anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.render.comment import Told
from bot.render.dashboard import PullLine, RunLine, State
from bot.render.text import one_line

if TYPE_CHECKING:
    from bot.github.archive import EvidenceBranch

RUNS = "runs/runs.json"
HISTORY = "history.json"
MOST_RUNS, MOST_PULLS, MOST_HISTORY = 40, 100, 40
MOST_TEXT = 1_000
_ANALYSES = frozenset({"analyse", "recreate", "onboard"})

Line = Annotated[str, Field(max_length=MOST_TEXT)]
Name = Annotated[str, Field(max_length=300)]


class _Kept(BaseModel):
    """Base of what is kept: frozen, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Run(_Kept):
    """One job that ended."""

    at: Name
    job: Name
    kind: Name
    state: Name
    why: Line
    summary: Line
    commit: Name | None = None
    number: int | None = None
    hint: Line = ""


class Pull(_Kept):
    """What became of one pull request of ours.

    `no_room`: it was not opened since as many were open as the manifest allows.
    """

    branch: Name
    state: State
    title: Line = ""
    number: int | None = None
    note: Line = ""
    no_room: bool = False


class Runs(_Kept):
    """`runs.json`: `runs` newest first."""

    schema_: Literal["fvec.runs/1"] = Field(default="fvec.runs/1", alias="schema")
    runs: list[Run] = Field(default_factory=list, max_length=MOST_RUNS)
    pulls: list[Pull] = Field(default_factory=list, max_length=MOST_PULLS)
    onboarding: int | None = None


class Report(_Kept):
    """What one rerun or judgement said."""

    at: Name
    job: Name
    commit: Name
    verdict: Name
    reason: Name
    gain: Name
    asked_by: Name


class History(_Kept):
    """`history.json`: newest first."""

    schema_: Literal["fvec.history/1"] = Field(default="fvec.history/1", alias="schema")
    reports: list[Report] = Field(default_factory=list, max_length=MOST_HISTORY)

    def earlier(self, job: str) -> list[Told]:
        """Return what other jobs than `job` said."""
        return [
            Told(r.at, r.commit, r.verdict, r.reason, r.gain, r.asked_by)
            for r in self.reports
            if r.job != job
        ]

    def decided(self, commit: str) -> Report | None:
        """Return the newest report at `commit` that accepted or rejected; None for none."""
        verdicts = ("accepted", "rejected")
        return next((r for r in self.reports if r.commit == commit and r.verdict in verdicts), None)


Document = TypeVar("Document", bound=_Kept)


def runs(archive: EvidenceBranch) -> Runs:
    """Return the last jobs."""
    return _read(archive, RUNS, Runs) or Runs()


def with_run(
    kept: Runs, run: Run, *, pulls: Sequence[Pull] | None = None, onboarding: int | None = None
) -> Runs:
    """Return the records with `run` first, or in the place that it has, with its first moment.

    `pulls` replaces what became of the pull requests; None leaves it. `onboarding` is the open
    onboarding pull request, which analyses alone know of. Pure.
    """
    old = next((other for other in kept.runs if other.job == run.job), None)
    if old is None:
        listed = [run, *kept.runs][:MOST_RUNS]
    else:
        again = run.model_copy(update={"at": old.at})
        listed = [again if other.job == run.job else other for other in kept.runs]
    return Runs(
        runs=listed,
        pulls=list(kept.pulls if pulls is None else pulls)[:MOST_PULLS],
        onboarding=onboarding if run.kind in _ANALYSES else kept.onboarding,
    )


def update_runs(archive: EvidenceBranch, change: Callable[[Runs], Runs]) -> Runs:
    """Replace `runs.json` by what `change` makes of it as it is now; return that.

    Nothing is written where it is the same. Raises as `EvidenceBranch.update` does.
    """

    def changed(found: bytes | None) -> bytes | None:
        wanted = content(change(_parsed(found, Runs) or Runs()))
        return None if wanted == found else wanted

    return _parsed(archive.update(RUNS, changed, "Last runs"), Runs) or Runs()


def history(archive: EvidenceBranch, folder: str) -> History:
    """Return what was said about the pull request that `folder` is of."""
    return _read(archive, f"{folder}/{HISTORY}", History) or History()


def with_report(kept: History, report: Report) -> History:
    """Return the history with `report` first, or in the place that it has, with its moment. Pure."""
    old = next((other for other in kept.reports if other.job == report.job), None)
    if old is None:
        return History(reports=[report, *kept.reports][:MOST_HISTORY])
    again = report.model_copy(update={"at": old.at})
    return History(reports=[again if r.job == report.job else r for r in kept.reports])


def content(document: _Kept) -> bytes:
    """Return a document as its file has it."""
    return document.model_dump_json(by_alias=True, indent=1).encode() + b"\n"


def line(text: str) -> str:
    """Return text as a record takes it: one line, bounded."""
    return one_line(text, MOST_TEXT)


def awaiting(kept: Runs) -> int:
    """Return how many accepted changes wait for room."""
    return sum(pull.state == "awaiting" and pull.no_room for pull in kept.pulls)


def run_lines(kept: Runs) -> list[RunLine]:
    """Return the jobs as the dashboard shows them."""
    return [RunLine(**run.model_dump()) for run in kept.runs]


def pull_lines(kept: Runs) -> list[PullLine]:
    """Return the pull requests as the dashboard shows them."""
    return [PullLine(**pull.model_dump(exclude={"no_room"})) for pull in kept.pulls]


def _read(archive: EvidenceBranch, path: str, model: type[Document]) -> Document | None:
    return _parsed(archive.get(path), model)


def _parsed(found: bytes | None, model: type[Document]) -> Document | None:
    try:
        return None if found is None else model.model_validate_json(found)
    except ValidationError:
        return None
