"""What the stations of a run answered, as the journal keeps it: enough to go on without asking again.

One entry holds one answer, whole: there is nothing between "not yet" and "done". Entries whose
kind ends in `intended` announce a side effect before it happens, with what was there before, so
that a resumed run can tell an effect that is missing from one that is done.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from layers.base import Edit, Hotspot, Hypothesis, LayerName, Profile
from layers.evidence import (
    Environment,
    Iteration,
    KnowledgeRecord,
    NoiseFloor,
    OnTop,
    ProfileRecord,
    PullRequestRecord,
    Record,
    StackRecord,
    Total,
)
from layers.story import Step, Story

HotspotRow = tuple[str, str, str, int, float, bool]  # the fields of a Hotspot, in order
STARTED, RESUMED, FINISHED = "run_started", "resumed", "run_finished"
GOES_ON = ("continue", "accept")  # of a look: the trial is not over
MEASURED = ("block", "look")  # they count once the answer that they led to is there


class Basis(Record):
    """What a run stands on: a resumed run refuses to go on where any of it differs."""

    fvec: str  # version
    options: dict[str, Any]  # of the command line, as far as they decide anything
    evaluator: dict[str, str]  # SHA-256 by name: the engine's own code, and what judges
    cards: str  # SHA-256 of all cards that the run started with


class Head(Record):
    """`run_started`."""

    run_id: str
    started_at: str
    seed: int
    stack: StackRecord
    environment: Environment
    basis: Basis
    base_branch: str  # where the first pull request goes
    knowledge_tip: str | None  # of the knowledge branch: whose cards the run started with
    reproduce: list[str] = Field(default_factory=list)  # argv of the command that measures again


class Resumed(Record):
    """`resumed`: another process goes on; blocks without an answer before it are dropped."""

    life: int  # 2 for the first time
    spent_s: float  # by all lives before


class ProfileAnswer(Record):
    """`profile`: one profile of a commit."""

    commit: str
    record: ProfileRecord
    hotspots: list[HotspotRow]

    @classmethod
    def of(cls, commit: str, profiled: Profile, record: ProfileRecord) -> ProfileAnswer:
        """Keep a profile whole, beside the part of it that is shown."""
        rows = [
            (s.process, s.file, s.function, s.line, s.share, s.inclusive) for s in profiled.hotspots
        ]
        return cls(commit=commit, record=record, hotspots=rows)

    def profile(self, out: Path) -> Profile:
        """Return the profile; its raw file lies below `out`."""
        shown = self.record
        return Profile(
            tool=shown.tool,
            raw=out / shown.raw,
            cpu_s=shown.cpu_s,
            requests=shown.requests,
            by_process=shown.by_process,
            by_layer={LayerName(name): share for name, share in shown.by_layer.items()},
            hotspots=tuple(Hotspot(*row) for row in self.hotspots),
            by_phase=shown.by_phase,
            floor=shown.floor,
        )


class ProfileFailure(Record):
    """`profile_failed`: the tool broke on a commit, which ends the loop."""

    commit: str
    message: str


class SaltRecord(Record):
    """How timed requests are made new."""

    permute: bool
    shrink: bool
    recombine: bool = False


class TakenRecord(Record):
    """How the unmodified stack takes one kind of changed request; see `layers.traffic.mutations`."""

    kind: str
    answer: Literal["answered", "refused", "unstable", "fatal", "absent", "untried"]
    inputs: tuple[str, ...] = ()
    finite: bool = True


class MutationsRecord(Record):
    """How it takes all of them."""

    outputs: tuple[str, ...]
    taken: list[TakenRecord]


class CeilingsRecord(Record):
    """What the machine can do."""

    copy_bytes_per_s: float
    link_bytes_per_s: float
    cores: int
    needs_s: dict[str, float] = Field(default_factory=dict)


class CalibrationAnswer(Record):
    """`calibration`: what was found out about the unmodified stack, and its profile."""

    work: NoiseFloor
    reproducible: list[str]
    launch_s: float
    block_requests: int
    salt: SaltRecord | None
    mutations: MutationsRecord | None = None  # None: nobody has asked, or in older journals
    ceilings: CeilingsRecord | None
    environment: Environment
    profile: ProfileAnswer


class Budget(Record):
    """`budget`: whether there was time for another candidate."""

    left: bool
    spent_s: float
    cut: int = Field(default=0, ge=0)  # attempts that a kill had cut after a look, by then
    candidate_s: float = 0.0  # what a candidate was taken to need; 0 in older journals
    reserved_s: float = 0.0  # and the end of the run after it


class WrittenAnswer(Record):
    """`written`: what a proposer wrote when it was asked, and what it knows since."""

    proposer: str
    number: int  # of the request, from 1
    story: Story
    state: dict[str, Any]
    backlog: list[str]
    hypothesis: Hypothesis | None = None
    files: dict[str, str | None] = Field(default_factory=dict)  # base64; None: deleted
    summary: str = ""
    explanation: str = ""
    ended: str = ""

    @property
    def edit(self) -> Edit | None:
        """The edit of the candidate, None without one."""
        if self.hypothesis is None:
            return None
        files = {name: None if x is None else b64decode(x) for name, x in self.files.items()}
        return Edit(files, self.summary, self.explanation)


def encoded(edit: Edit | None) -> dict[str, str | None]:
    """Return the files of an edit as `WrittenAnswer` keeps them."""
    files = edit.files if edit else {}
    return {n: None if x is None else b64encode(x).decode("ascii") for n, x in files.items()}


class HeardAnswer(Record):
    """`heard`: what the author of candidate `n` made of its verdict."""

    n: int
    proposer: str
    state: dict[str, Any]
    backlog: list[str]
    steps: list[Step]
    ended: str = ""


class CommitIntent(Record):
    """`candidate_intended`: the branch that is about to be made, and its tip before."""

    n: int
    branch: str
    before: str | None


class CommitAnswer(Record):
    """`candidate`: it is committed."""

    n: int
    branch: str
    commit: str
    patch: str


class CommitRefused(Record):
    """`candidate_refused`: the edit, or its branch, was refused; nothing was made."""

    n: int
    branch: str
    message: str
    hint: str | None


class TakenOut(Record):
    """`taken_out`: candidate `n` is about to be taken out of the stack, and the rest to move."""

    n: int
    moved: list[CommitAnswer]  # of those that stay, where they go


class TotalAnswer(Record):
    """`totals`: start against end, or why that could not be measured."""

    total: Total | None
    sustained: NoiseFloor | None = None
    tail: NoiseFloor | None = None
    failure: str = ""


class PullIntent(Record):
    """`pull_request_intended`."""

    n: int
    branch: str
    commit: str


class KnowledgeIntent(Record):
    """`knowledge_intended`: the knowledge branch is about to be moved from `tip`."""

    tip: str | None


class End(Record):
    """`run_finished`."""

    conclusion: str
    wall_s: float = Field(ge=0)


ANSWERS: Mapping[str, type[Record] | None] = {  # None: plain text, or lines of it
    "calibration": CalibrationAnswer,
    "profile": ProfileAnswer,
    "profile_failed": ProfileFailure,
    "sampled": None,
    "budget": Budget,
    "written": WrittenAnswer,
    "heard": HeardAnswer,
    "candidate_intended": CommitIntent,
    "candidate": CommitAnswer,
    "candidate_refused": CommitRefused,
    "iteration": Iteration,
    "not_tried": None,
    "on_top": OnTop,
    "taken_out": TakenOut,
    "totals": TotalAnswer,
    "pull_request_intended": PullIntent,
    "pull_request": PullRequestRecord,
    "knowledge_intended": KnowledgeIntent,
    "knowledge": KnowledgeRecord,
    FINISHED: End,
}
