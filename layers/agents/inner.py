"""The inner loop: implementer, public checks, accuracy judge, each with a fresh context.

The checks are the framework's own, run on what lies in the workspace when the implementer is
done, whatever it says that it ran. What the judge rejects is not tried; what it finds nothing in
is not thereby accepted. A reason goes back to the next round, quoted: it may hold a log's words.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from layers.agents.plan import Plan, PlanRefused
from layers.agents.service import broken
from layers.agents.steps import FREE, broke, words
from layers.agents.workbench.quoting import Seen, hidden_lines
from layers.agents.workbench.readable import unreadable
from layers.agents.workbench.workspace import Workspace, WorkspaceRefused
from layers.base import Edit, Hypothesis
from layers.errors import FvecError, InvalidInput, RunStopped
from layers.loop.proposing import Check, Checked
from layers.places import without_places
from layers.redact import redact
from layers.story import Cost, Outcome, Role, Step

MOST_CHECKS = 8  # that an implementer may ask for in one round: each starts a server
MOST_FEEDBACK = 8000  # characters
MOST_DIFF = 60_000  # of a diff that a judge is shown, and that is tried
REJECTED_BEFORE = "rejected_before"  # the judge's word on these very files stays
CHECK_BROKE = "check_broke"  # a tool of ours: no other draft would help
# The same, as the checks answer it themselves: they never raise for what broke inside of them.
_NOT_THEIRS = frozenset({CHECK_BROKE, "tool_failed", "evaluator_changed", "machine_too_noisy"})

# After these another round of the same implementer would end the same way.
_FINAL = frozenset(
    {
        Outcome.NO_EDIT,
        Outcome.REFUSED,
        Outcome.OUT_OF_BUDGET,
        Outcome.OUT_OF_TIME,
        Outcome.UNREACHABLE,
    }
)


@dataclass(frozen=True, slots=True)
class Task:
    """What one round of an implementer is given."""

    plan: Plan | None  # None: the implementer plans too, and says its plan afterwards
    brief: str  # what is known of the stack; what came from the repository is quoted in it
    round: int  # from 1
    feedback: str  # why the round before did not pass, quoted where it must be; empty in the first


@dataclass(frozen=True, slots=True)
class Implemented:
    """What one round of an implementer came to; the edit itself lies in the workspace."""

    step: Step
    plan: Plan | None = None  # of an implementer that plans too
    summary: str = ""  # one line; the plan's title where it is empty
    explanation: str = ""  # for the reviewer; the plan's claim where it is empty
    fault: bool = True  # of whoever works, where there is no edit; else something of ours broke


class Implementer(Protocol):
    """Carries out one plan in a workspace."""

    @property
    def plans(self) -> bool:
        """Whether it writes the plan, too: then a task has none."""

    def implement(
        self, task: Task, workspace: Workspace, check: Callable[[], Checked], seen: Seen
    ) -> Implemented:
        """Edit the workspace; `check` runs the public checks on it as it is then.

        Never raises for what a model, a program or a service did.
        """


@dataclass(frozen=True, slots=True)
class Reviewed:
    """What a reviewer made of a diff. No audit counts as a rejection."""

    step: Step
    rejected: bool
    feedback: str  # for the implementer


class Reviewer(Protocol):
    """Reads a diff for ways around the checks; it can reject, and nothing else."""

    def review(
        self, plan: Plan, diff: str, workspace: Workspace, seen: Seen, round: int
    ) -> Reviewed:
        """Say whether the diff must not be tried. Never raises for what a model did."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Who works in the inner loop, and how often it may go round."""

    implementer: Implementer
    reviewer: Reviewer | None
    rounds: int
    spent: Callable[[], tuple[Outcome, str] | None] = lambda: None  # which limit is reached


@dataclass(frozen=True, slots=True)
class Drafted:
    """How the rounds ended: with a candidate, or with the reason why there is none."""

    steps: tuple[Step, ...]
    plan: Plan | None  # the last one that was told
    hypothesis: Hypothesis | None = None
    edit: Edit | None = None
    diff: str = ""
    outcome: Outcome = Outcome.PASSED  # of the step that ended them
    reason: str = ""  # of the last round that did not pass
    fault: bool = True  # of the author; else our tools, or the judge, came to no answer


@dataclass
class Drafts:
    """What lies in a workspace, held to the public checks; the same draft is checked once."""

    workspace: Workspace
    accept: Callable[[Plan], Hypothesis]  # raises PlanRefused
    check: Check
    secrets: Sequence[str] = ()  # values that no edit may hold
    redacted: Callable[[str], str] = redact  # what may be seen of a text
    wall_s: float = 0.0  # that checks took since it was last set to 0
    left: int = MOST_CHECKS  # for the implementer to ask for
    judged: bool = False  # somebody reads the diff and can reject it
    rejected: dict[str, str] = field(default_factory=dict)  # by the judge: why, by digest of files
    _last: tuple[Plan, Mapping[str, bytes | None], Checked] | None = field(
        default=None, init=False, repr=False
    )

    def asked(self, plan: Plan | None) -> Checked:
        """Check for the implementer, as often as it may ask in one round."""
        if self.left <= 0:
            return _refused("checks_spent", f"{MOST_CHECKS} checks a round: hand in what you have")
        self.left -= 1
        return self.checked(plan)[0]

    def checked(self, plan: Plan | None) -> tuple[Checked, Hypothesis | None, Edit | None]:
        """Return what the checks say of the draft, and the candidate that it is."""
        if plan is None:
            return _refused("no_plan", "nothing says what the change is meant to do"), None, None
        try:
            hypothesis, files = self.accept(plan), self.workspace.edit()
        except PlanRefused as refused:
            return _refused("plan_refused", refused.reason), None, None
        except WorkspaceRefused as refused:
            return _refused("workspace_refused", str(refused)), None, None
        edit = Edit(files, plan.title, plan.claim)
        wrong = self._unfit(files)
        return wrong or self._checked(plan, hypothesis, edit), hypothesis, edit

    def rejects(self, files: Mapping[str, bytes | None], why: str) -> None:
        """Keep that the judge rejected these contents: nobody is asked about them again."""
        self.rejected[_digest(files)] = why

    def _unfit(self, files: Mapping[str, bytes | None]) -> Checked | None:
        """Return why a draft is neither checked nor judged, None where it is."""
        if not files:
            return _refused("no_op_edit", "the workspace is as it was")
        held = [
            self.redacted(name)
            for name, text in files.items()
            if self._holds_secret(name.encode()) or self._holds_secret(text or b"")
        ]
        if held:
            return _refused("holds_a_secret", f"a credential stands in {', '.join(sorted(held))}")
        hidden = unreadable(files, self.workspace.original, self.redacted)
        if hidden is not None:
            return _refused(hidden.reason, hidden.detail)
        if (why := self.rejected.get(_digest(files))) is not None:
            told = "The accuracy judge rejected this very change before; change it."
            return _refused(REJECTED_BEFORE, f"{told}\n{why}")
        return self._unjudgeable() if self.judged else None

    def _unjudgeable(self) -> Checked | None:
        """Return why a judge could not see all of a draft, None where it can."""
        diff = self.workspace.diff(self.redacted)
        if len(diff) > MOST_DIFF:
            told = f"the diff has {len(diff):,} characters; at most {MOST_DIFF:,} are audited"
            return _refused("too_large_to_judge", told)
        # Lines that look like no secret in their file may look like one between others.
        if places := hidden_lines(diff, self.redacted):
            told = f"line {places[0][0]} of the diff looks like a credential; write it otherwise"
            return _refused("looks_like_a_secret", told)
        return None

    def _holds_secret(self, text: bytes) -> bool:
        return any(secret.encode() in text for secret in self.secrets if secret)

    def _checked(self, plan: Plan, hypothesis: Hypothesis, edit: Edit) -> Checked:
        if self._last is not None and self._last[:2] == (plan, edit.files):
            return self._last[2]
        started = time.monotonic()
        try:
            found = self.check(hypothesis, edit)
        except RunStopped:
            raise
        except FvecError as error:
            reason = "edit_refused" if isinstance(error, InvalidInput) else CHECK_BROKE
            return _refused(reason, without_places(error.message))
        finally:
            self.wall_s += time.monotonic() - started
        self._last = plan, dict(edit.files), found
        return found


def run_rounds(parts: Parts, plan: Plan | None, brief: str, drafts: Drafts, seen: Seen) -> Drafted:
    """Go round until a draft passes the public checks and the judge, or the rounds are spent."""
    steps: list[Step] = []
    turn = _Turn()
    drafts.judged = parts.reviewer is not None
    for number in range(1, parts.rounds + 1):
        if (over := parts.spent()) is not None:
            steps.append(_not_begun(number, *over))
            turn = _Turn(plan=turn.plan, reason=over[0], fault=False)
            break
        task = Task(plan, brief, number, turn.feedback)
        turn = _turn(parts, task, drafts, seen)
        steps += turn.steps
        if turn.edit is not None or turn.final:
            break
    return Drafted(
        steps=tuple(steps),
        plan=turn.plan or plan,
        hypothesis=turn.hypothesis if turn.edit is not None else None,
        edit=turn.edit,
        diff=turn.diff,
        outcome=steps[-1].outcome if steps else Outcome.NO_EDIT,
        reason="" if turn.edit is not None else turn.reason,
        fault=turn.fault,
    )


@dataclass
class _Turn:
    """One round: what was done in it, and what is told to the next one."""

    steps: list[Step] = field(default_factory=list)
    plan: Plan | None = None
    hypothesis: Hypothesis | None = None
    edit: Edit | None = None  # only of a draft that passed
    diff: str = ""
    feedback: str = ""
    reason: str = ""
    final: bool = False
    fault: bool = True
    role: Role = Role.IMPLEMENTER  # who works


def _not_begun(number: int, outcome: Outcome, text: str) -> Step:
    return Step(role=Role.IMPLEMENTER, round=number, outcome=outcome, text=words(text), cost=FREE)


def _turn(parts: Parts, task: Task, drafts: Drafts, seen: Seen) -> _Turn:
    """Have one round worked; what breaks in it is told as of whom it broke under, and ends them."""
    turn = _Turn(plan=task.plan)
    try:
        _work(turn, parts, task, drafts, seen)
    except RunStopped:
        raise
    except broken.BROKEN as error:
        turn.steps.append(broke(turn.role, task.round, error))
        turn.reason, turn.fault, turn.final = Outcome.BROKE, False, True
    return turn


def _work(turn: _Turn, parts: Parts, task: Task, drafts: Drafts, seen: Seen) -> None:
    """Ask implementer, public checks and reviewer in turn, as far as the draft gets."""
    drafts.wall_s, drafts.left = 0.0, MOST_CHECKS
    workspace = drafts.workspace
    done = parts.implementer.implement(task, workspace, lambda: drafts.asked(task.plan), seen)
    turn.steps.append(done.step)
    turn.plan = task.plan or done.plan
    _note_configurations(workspace, seen)
    if done.step.outcome is not Outcome.EDITED:
        lead = f"The round ended as {done.step.outcome}."
        turn.feedback = _told(lead, done.step.text, "the round before", seen)
        turn.reason, turn.fault = done.step.reason or done.step.outcome, done.fault
        turn.final = done.step.outcome in _FINAL or not done.fault
        return
    turn.role = Role.CHECKS
    checked, hypothesis, draft = drafts.checked(turn.plan)
    turn.steps.append(_check_step(checked, task.round, drafts.wall_s))
    if not checked.passed or draft is None or turn.plan is None:
        lead = f"The public checks did not pass: {checked.reason}."
        turn.feedback = _told(lead, checked.detail, "the public checks", seen)
        turn.reason, turn.fault = checked.reason, checked.reason not in _NOT_THEIRS
        turn.final = not turn.fault
        return
    turn.role = Role.JUDGE
    turn.diff = workspace.diff(drafts.redacted)
    if parts.reviewer is not None:
        audit = parts.reviewer.review(turn.plan, turn.diff, workspace, seen, task.round)
        turn.steps.append(audit.step)
        if audit.rejected:
            _rejected(turn, audit, drafts, draft, seen)
            return
    turn.hypothesis = hypothesis
    turn.edit = Edit(
        draft.files, done.summary or turn.plan.title, done.explanation or turn.plan.claim
    )


def _rejected(turn: _Turn, audit: Reviewed, drafts: Drafts, draft: Edit, seen: Seen) -> None:
    """Keep what a reviewer said against a draft, or that it said nothing."""
    lead = "The accuracy judge would not let it be tried."
    turn.feedback = _told(lead, audit.feedback, "the accuracy judge", seen)
    turn.reason = audit.step.reason or audit.step.outcome
    turn.fault = audit.step.outcome is Outcome.REJECTED  # else there was no audit
    turn.final = not turn.fault
    if turn.fault:
        drafts.rejects(draft.files, f"{turn.reason}: {audit.feedback}")


def _note_configurations(workspace: Workspace, seen: Seen) -> None:
    """Note what asks for more than its agent is given: of the repository, and what a round left."""
    with suppress(WorkspaceRefused):  # as its edit is then, which says why
        for path, text in workspace.configurations():
            seen.configured(text, path)


def _told(lead: str, text: str, place: str, seen: Seen) -> str:
    """Return a reason for the next round; what may hold foreign words is quoted."""
    if not text.strip():
        return lead
    # Without secrets before it is cut: half of one is not known for one.
    return f"{lead}\n\n{seen.quoted(seen.redacted(text)[:MOST_FEEDBACK], place)}"


def _check_step(checked: Checked, number: int, wall_s: float) -> Step:
    told = checked.detail or ", ".join(f"{gate.name}: {gate.reason}" for gate in checked.gates)
    return Step(
        role=Role.CHECKS,
        round=number,
        outcome=Outcome.PASSED if checked.passed else Outcome.FAILED,
        text=words(told),
        reason=checked.reason,
        cost=Cost(usd=0.0, wall_s=wall_s),
    )


def _digest(files: Mapping[str, bytes | None]) -> str:
    """Return what tells the contents of an edit apart from any other."""
    whole = hashlib.sha256()
    for path, content in sorted(files.items()):
        held = "gone" if content is None else hashlib.sha256(content).hexdigest()
        whole.update(f"{path}\0{held}\0".encode("utf-8", "surrogatepass"))
    return whole.hexdigest()


def _refused(reason: str, detail: str) -> Checked:
    return Checked(gates=(), passed=False, reason=reason, detail=detail)
