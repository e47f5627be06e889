"""The story of a candidate that an agent wrote: who did what, what it cost, what was refused.

Every text in it came from a model, a program or a repository: data, quoted wherever it is shown.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from layers.base import Sign

MOST_TEXT = 4000  # characters of one text; a transcript has all of it

Words = Annotated[str, Field(max_length=MOST_TEXT)]


class Told(BaseModel):
    """Base: frozen, no unknown fields, finite numbers only."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Role(StrEnum):
    """Who works on a candidate; each begins with a fresh context."""

    PLANNER = "planner"
    IMPLEMENTER = "implementer"
    CHECKS = "public checks"  # the framework's own: no agent runs them
    JUDGE = "accuracy judge"
    EVALUATOR = "performance evaluator"


class Outcome(StrEnum):
    """How one step of a story ended."""

    PLANNED = "planned"
    NOTHING_LEFT = "nothing_left"  # the planner ends the work, with its reason
    EDITED = "edited"
    NO_EDIT = "no_edit"
    PASSED = "passed"  # the public checks
    FAILED = "failed"
    REJECTED = "rejected"  # by the judge
    NOTHING_FOUND = "nothing_found"  # by the judge: never an acceptance
    HINTS = "hints"  # of the evaluator
    REFUSED = "refused"  # the model would not
    MALFORMED = "malformed"  # no usable answer after being told what is wrong with it
    OUT_OF_TURNS = "out_of_turns"
    OUT_OF_BUDGET = "out_of_budget"
    OUT_OF_TIME = "out_of_time"
    UNREACHABLE = "unreachable"  # the service, after all tries
    BROKE = "broke"  # a program ended badly


class Cost(Told):
    """What was spent. `usd` is None where no prices were given."""

    calls: int = Field(default=0, ge=0)
    input_tokens: int = Field(default=0, ge=0)  # uncached
    output_tokens: int = Field(default=0, ge=0)
    cache_read_tokens: int = Field(default=0, ge=0)
    cache_write_tokens: int = Field(default=0, ge=0)
    usd: float | None = Field(default=None, ge=0)
    wall_s: float = Field(default=0.0, ge=0)

    def __add__(self, other: Cost) -> Cost:
        """Return both together; money is known where that of every call is."""
        known = self._known() and other._known()
        usd = (self.usd or 0.0) + (other.usd or 0.0) if known else None
        return Cost(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            usd=usd,
            wall_s=self.wall_s + other.wall_s,
        )

    def _known(self) -> bool:
        return self.usd is not None or not self.calls

    @property
    def tokens(self) -> int:
        """All tokens, whatever they cost."""
        return (
            self.input_tokens
            + self.output_tokens
            + self.cache_read_tokens
            + self.cache_write_tokens
        )


class Refusal(Told):
    """What an agent asked of a tool, or wrote, and was not let do."""

    role: Role
    what: Words  # "write .github/workflows/ci.yml"
    why: Words


class Suspicion(Told):
    """Text that reached an agent and reads as if it were meant to steer one."""

    place: str  # "file:line", "a log", "a commit message"
    kind: str  # stable code: "instruction", "role_marker", "hidden_characters", "asks_for_secret"
    excerpt: Annotated[str, Field(max_length=200)]


class Step(Told):
    """One thing that one role did."""

    role: Role
    round: int = Field(ge=0)  # of the inner loop, from 1; 0 before it
    outcome: Outcome
    text: Words = ""
    reason: str = ""  # stable code of a check or an audit that failed
    commit: str | None = None  # what a measurement in `text` belongs to
    cost: Cost = Cost()
    transcript: str | None = None  # below the results folder, redacted


class SignRecord(Told):
    """One sign of activation, and whether it was seen."""

    sign: Sign
    model: str
    subject: str
    value: str = ""
    seen: bool | None = None  # None: not looked for
    detail: str = ""


class ContractRecord(Told):
    """A contract as evidence; see `layers.base.Contract`."""

    claim: Words
    expected: tuple[float, float]
    activation: list[SignRecord]
    falsifier: Words
    skill: str = ""


class Story(Told):
    """How one candidate came about, or why none did."""

    proposer: str
    issue: str  # of the backlog
    title: str
    steps: list[Step]
    refusals: list[Refusal] = Field(default_factory=list)
    suspicions: list[Suspicion] = Field(default_factory=list)

    @property
    def cost(self) -> Cost:
        """All that its steps spent."""
        total = Cost(usd=0.0)
        for step in self.steps:
            total += step.cost
        return total


class Yield(Told):
    """What one proposer's candidates came to, and what they cost."""

    proposer: str
    tried: int
    accepted: int
    rejected: int
    inconclusive: int
    failed: int
    no_candidate: int  # stories that ended before a trial
    wall_s: float  # writing and trials
    cost: Cost | None  # None: no model was asked

    @property
    def trials_per_gain(self) -> float | None:
        """How many trials one accepted gain took, None without one."""
        return self.tried / self.accepted if self.accepted else None


class IssueStatus(StrEnum):
    """Where an issue of the backlog stands."""

    OPEN = "open"
    IN_PROGRESS = "in_progress"
    DONE = "done"
    PARKED = "parked"  # the direction is sound; no implementation passed the checks
    ABANDONED = "abandoned"  # the claim is wrong here, for a reason in the mechanism


class AgentsReport(Told):
    """What agents did in a run."""

    yields: list[Yield]
    without_candidate: list[Story]  # stories that led to no trial
    backlog: list[str]  # one line an issue: id, status, why
    ended: str  # why no agent was asked further
    schema_: Literal["fvec.agents-report/1"] = Field(default="fvec.agents-report/1", alias="schema")

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )
