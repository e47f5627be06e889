"""Rounds of implementer, public checks and judge: what ends them, and who is told what."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from layers.agents.desk import protected_in
from layers.agents.inner import (
    CHECK_BROKE,
    MOST_CHECKS,
    MOST_FEEDBACK,
    Drafted,
    Drafts,
    Implemented,
    Parts,
    Reviewed,
    Task,
    run_rounds,
)
from layers.agents.plan import Plan, PlanRefused
from layers.agents.workbench.quoting import Seen
from layers.agents.workbench.workspace import Workspace
from layers.base import Edit, Hypothesis
from layers.errors import InvalidInput, JournalBroken, ToolFailed
from layers.evidence import Gate, GateResult
from layers.loop.proposing import Checked
from layers.redact import redact
from layers.story import Cost, Outcome, Role, Step
from tests.agents_judged import plan
from tests.agents_situation import FASTER, MODEL, SOURCE, hypothesis, repository, situation

PASSED = Checked((Gate(name="paths", result=GateResult.PASS, reason="paths_allowed"),), passed=True)
DIFFERS = Checked((), passed=False, reason="outputs_differ", detail="element 3 is 0.41, was 0.44")
SECRET = "hunter2-is-no-password"  # noqa: S105

Act = Callable[[Task, Workspace, Callable[[], Checked]], Implemented]


def edits(text: str = FASTER) -> Act:
    """An implementer's round that writes the model anew."""

    def act(task: Task, workspace: Workspace, check: Callable[[], Checked]) -> Implemented:
        workspace.write(MODEL, text)
        return Implemented(step(Outcome.EDITED, task.round))

    return act


def ends(outcome: Outcome, text: str = "", reason: str = "") -> Act:
    """An implementer's round that ends in another way."""
    return lambda task, *_: Implemented(step(outcome, task.round, text, reason))


def step(outcome: Outcome, number: int, text: str = "", reason: str = "") -> Step:
    return Step(role=Role.IMPLEMENTER, round=number, outcome=outcome, text=text, reason=reason)


@dataclass
class Scripted:
    """An implementer whose rounds are given, one after the other."""

    acts: list[Act]
    plans: bool = False
    tasks: list[Task] = field(default_factory=list)

    def implement(self, task, workspace, check, seen) -> Implemented:
        self.tasks.append(task)
        return self.acts[len(self.tasks) - 1](task, workspace, check)


@dataclass
class Audits:
    """A judge whose answers are given: the kind that it rejects for, empty for nothing found."""

    answers: list[str]
    diffs: list[str] = field(default_factory=list)

    def review(self, plan, diff, workspace, seen, round) -> Reviewed:
        self.diffs.append(diff)
        kind = self.answers[len(self.diffs) - 1]
        outcome = Outcome.REJECTED if kind else Outcome.NOTHING_FOUND
        judged = Step(role=Role.JUDGE, round=round, outcome=outcome, reason=kind)
        why = f"{MODEL}:7: {kind}: answers of one request for another"
        return Reviewed(judged, bool(kind), why)


@dataclass
class Checks:
    """Public checks whose answers are given; the last one stays."""

    answers: list[Checked | Exception]
    asked: list[Edit] = field(default_factory=list)

    def __call__(self, hypothesis: Hypothesis, edit: Edit) -> Checked:
        self.asked.append(edit)
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


@dataclass
class Rounds:
    """A workspace, and what rounds in it come to."""

    workspace: Workspace
    seen: Seen = field(default_factory=Seen)

    def go(
        self,
        implementer: Scripted,
        checks: Checks,
        judge: Audits | None = None,
        *,
        rounds: int = 3,
        accept: Callable[[Plan], Hypothesis] = lambda plan: hypothesis(plan.issue),
        spent: Callable[[], tuple[Outcome, str] | None] = lambda: None,
    ) -> Drafted:
        drafts = Drafts(self.workspace, accept, checks, (SECRET,))
        told = None if implementer.plans else plan()
        parts = Parts(implementer, judge, rounds, spent)
        return run_rounds(parts, told, "brief", drafts, self.seen)


@pytest.fixture
def rounds(tmp_path: Path) -> Iterator[Rounds]:
    root = repository(tmp_path / "stack")
    protected = protected_in(situation(root).base)
    with closing(Workspace.make(root, tmp_path / "workspaces", protected)) as workspace:
        yield Rounds(workspace)


def roles(drafted: Drafted) -> list[tuple[Role, int, Outcome]]:
    return [(one.role, one.round, one.outcome) for one in drafted.steps]


# --- what may be spent ----------------------------------------------------------------------------


LATE = Outcome.OUT_OF_TIME, "agents have worked for 61.0 of 60 minutes"


def test_no_round_begins_once_a_limit_is_reached(rounds: Rounds) -> None:
    limits = iter([None, LATE])
    implementer = Scripted([edits()])

    drafted = rounds.go(implementer, Checks([DIFFERS]), spent=lambda: next(limits))

    assert roles(drafted) == [
        (Role.IMPLEMENTER, 1, Outcome.EDITED),
        (Role.CHECKS, 1, Outcome.FAILED),
        (Role.IMPLEMENTER, 2, Outcome.OUT_OF_TIME),
    ]
    assert len(implementer.tasks) == 1
    assert drafted.steps[-1].text == LATE[1]
    assert (drafted.edit, drafted.outcome, drafted.reason) == (None, *[Outcome.OUT_OF_TIME] * 2)
    assert not drafted.fault, "no attempt of its author's"


def test_a_program_keeps_its_plan_where_a_limit_ends_its_rounds(rounds: Rounds) -> None:
    def act(task, workspace, check):
        workspace.write(MODEL, FASTER)
        return Implemented(step(Outcome.EDITED, task.round), plan())

    limits = iter([None, LATE])

    drafted = rounds.go(Scripted([act], plans=True), Checks([DIFFERS]), spent=lambda: next(limits))

    assert drafted.plan == plan()


def test_a_draft_that_passes_is_handed_in_whatever_it_cost(rounds: Rounds) -> None:
    limits = iter([None, LATE])

    drafted = rounds.go(Scripted([edits()]), Checks([PASSED]), spent=lambda: next(limits))

    assert drafted.edit is not None


# --- how a candidate comes about ------------------------------------------------------------------


def test_a_draft_that_passes_checks_and_judge_is_a_candidate(rounds: Rounds) -> None:
    checks, judge = Checks([PASSED]), Audits([""])

    drafted = rounds.go(Scripted([edits()]), checks, judge)

    assert roles(drafted) == [
        (Role.IMPLEMENTER, 1, Outcome.EDITED),
        (Role.CHECKS, 1, Outcome.PASSED),
        (Role.JUDGE, 1, Outcome.NOTHING_FOUND),
    ]
    assert drafted.edit == Edit({MODEL: FASTER.encode()}, plan().title, plan().claim)
    assert drafted.hypothesis == hypothesis()
    assert (drafted.plan, drafted.reason) == (plan(), "")
    assert "+    return list(map(str, request))" in drafted.diff
    assert judge.diffs == [drafted.diff]


def test_words_of_the_implementer_are_those_of_the_commit(rounds: Rounds) -> None:
    def act(task, workspace, check):
        workspace.write(MODEL, FASTER)
        return Implemented(step(Outcome.EDITED, 1), None, "Map the rows", "The same texts.")

    drafted = rounds.go(Scripted([act]), Checks([PASSED]))

    assert drafted.edit is not None
    assert (drafted.edit.summary, drafted.edit.explanation) == ("Map the rows", "The same texts.")


def test_a_broken_draft_is_repaired_from_the_reason(rounds: Rounds) -> None:
    implementer = Scripted([edits(SOURCE + "# broken\n"), edits()])

    drafted = rounds.go(implementer, Checks([DIFFERS, PASSED]))

    assert [outcome for _, _, outcome in roles(drafted)] == [
        Outcome.EDITED,
        Outcome.FAILED,
        Outcome.EDITED,
        Outcome.PASSED,
    ]
    first, second = implementer.tasks
    assert (first.round, first.feedback) == (1, "")
    assert second.round == 2
    lead, _, quoted = second.feedback.partition("\n\n")
    assert lead == "The public checks did not pass: outputs_differ."
    assert quoted.splitlines()[0].endswith("begins: the public checks]")
    assert quoted.splitlines()[1] == DIFFERS.detail
    assert drafted.steps[1].text == DIFFERS.detail
    assert drafted.edit is not None


def test_what_a_round_left_is_there_in_the_next(rounds: Rounds) -> None:
    found: list[str] = []

    def act(task, workspace, check):
        found.append(workspace.read(MODEL))
        return Implemented(step(Outcome.EDITED, 2))

    rounds.go(Scripted([edits(FASTER), act]), Checks([DIFFERS]), rounds=2)

    assert found == [FASTER]


def test_the_judge_rejects_and_its_reason_goes_to_the_next_round(rounds: Rounds) -> None:
    implementer = Scripted([edits(SOURCE + "CACHE = {}\n"), edits()])

    drafted = rounds.go(implementer, Checks([PASSED]), Audits(["result_reuse", ""]))

    assert [role for role, _, _ in roles(drafted)] == [
        Role.IMPLEMENTER,
        Role.CHECKS,
        Role.JUDGE,
    ] * 2
    assert "The accuracy judge would not let it be tried." in implementer.tasks[1].feedback
    assert "result_reuse: answers of one request for another" in implementer.tasks[1].feedback
    assert drafted.edit is not None


# --- how there is none ----------------------------------------------------------------------------


def test_the_last_reason_stays_when_the_rounds_are_spent(rounds: Rounds) -> None:
    implementer = Scripted([edits(f"{SOURCE}# {n}\n") for n in range(2)])

    drafted = rounds.go(implementer, Checks([DIFFERS]), rounds=2)

    assert (drafted.edit, drafted.hypothesis) == (None, None)
    assert (drafted.outcome, drafted.reason) == (Outcome.FAILED, "outputs_differ")
    assert drafted.fault


def test_without_an_audit_there_is_no_candidate_and_no_other_round(rounds: Rounds) -> None:
    class Silent:
        def review(self, plan, diff, workspace, seen, round) -> Reviewed:
            mute = Step(role=Role.JUDGE, round=round, outcome=Outcome.MALFORMED)
            return Reviewed(mute, rejected=True, feedback="it was not audited")

    drafted = rounds.go(Scripted([edits(), edits()]), Checks([PASSED]), Silent())

    assert [role for role, _, _ in roles(drafted)][-1] is Role.JUDGE
    assert len(drafted.steps) == 3
    assert (drafted.edit, drafted.reason, drafted.fault) == (None, "malformed", False)


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome.NO_EDIT,
        Outcome.REFUSED,
        Outcome.OUT_OF_BUDGET,
        Outcome.OUT_OF_TIME,
        Outcome.UNREACHABLE,
    ],
)
def test_what_another_round_would_not_mend_ends_them(rounds: Rounds, outcome: Outcome) -> None:
    drafted = rounds.go(Scripted([ends(outcome, "so it was")]), Checks([PASSED]))
    assert roles(drafted) == [(Role.IMPLEMENTER, 1, outcome)]
    assert (drafted.outcome, drafted.reason) == (outcome, outcome.value)


@pytest.mark.parametrize("outcome", [Outcome.MALFORMED, Outcome.BROKE, Outcome.OUT_OF_TURNS])
def test_what_another_round_may_mend_is_told(rounds: Rounds, outcome: Outcome) -> None:
    implementer = Scripted([ends(outcome, "line 3: claim is missing", "why"), edits()])

    drafted = rounds.go(implementer, Checks([PASSED]))

    assert drafted.edit is not None
    told = implementer.tasks[1].feedback
    assert told.startswith(f"The round ended as {outcome}.")
    assert "line 3: claim is missing" in told


def test_an_edit_that_was_not_made_is_seen_whatever_is_said(rounds: Rounds) -> None:
    checks = Checks([PASSED])

    drafted = rounds.go(Scripted([edits(SOURCE)]), checks, rounds=1)

    assert (drafted.outcome, drafted.reason) == (Outcome.FAILED, "no_op_edit")
    assert checks.asked == []


def test_a_link_in_the_workspace_is_told_to_its_author(rounds: Rounds) -> None:
    def act(task, workspace, check):
        (workspace.root / "models" / "away").symlink_to("/etc")
        return Implemented(step(Outcome.EDITED, 1))

    drafted = rounds.go(Scripted([act]), Checks([PASSED]), rounds=1)

    assert drafted.reason == "workspace_refused"
    assert "symbolic link" in drafted.steps[-1].text


def test_an_edit_that_holds_a_secret_goes_nowhere(rounds: Rounds) -> None:
    checks = Checks([PASSED])

    drafted = rounds.go(Scripted([edits(f"{SOURCE}KEY = '{SECRET}'\n")]), checks, rounds=1)

    assert drafted.reason == "holds_a_secret"
    assert (checks.asked, drafted.edit) == ([], None)
    assert SECRET not in drafted.steps[-1].text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{SOURCE}LAST_TOKEN = _memo[k]if[k][0]in[*_memo]else[f][0](x\n", "looks_like_a_secret"),
        (f"# coding: utf-7\n{SOURCE}", "unreadable"),
        (
            f"{SOURCE}{'# padding, so that nobody sees what follows' * 20}\n" * 80,
            "too_large_to_judge",
        ),
    ],
)
def test_what_cannot_be_read_is_neither_checked_nor_judged(
    rounds: Rounds, text: str, reason: str
) -> None:
    checks, judge = Checks([PASSED]), Audits([])

    drafted = rounds.go(Scripted([edits(text)]), checks, judge, rounds=1)

    assert (drafted.reason, drafted.edit, drafted.fault) == (reason, None, True)
    assert (checks.asked, judge.diffs) == ([], [])
    assert drafted.steps[-1].text


def test_how_long_a_diff_is_matters_to_a_judge_alone(rounds: Rounds) -> None:
    text = "".join(f"ROW_{number} = {number}\n" for number in range(6000))
    assert rounds.go(Scripted([edits(text)]), Checks([PASSED])).edit is not None


def test_lines_that_only_the_diff_makes_a_secret_of_are_not_judged(rounds: Rounds) -> None:
    # The sign of a line that went makes a marker of four dashes one of five.
    before = "----BEGIN PRIVATE KEY-----\nkeep = 1\n"
    rounds.workspace.write("models/features/1/key.py", before)
    drafts = Drafts(rounds.workspace, lambda told: hypothesis(told.issue), Checks([PASSED]))
    drafts.judged = True
    original = rounds.workspace.original
    rounds.workspace.original = lambda path: (  # type: ignore[method-assign]
        before.encode() if path.endswith("key.py") else original(path)
    )
    rounds.workspace.write(
        "models/features/1/key.py", "hidden=eval/of/what/nobody/sees\nkeep = 1\n"
    )

    assert drafts.checked(plan())[0].reason == "looks_like_a_secret"


def test_a_secret_in_the_name_of_a_file_goes_nowhere(rounds: Rounds) -> None:
    def act(task, workspace, check):
        workspace.write(f"models/features/{SECRET}.txt", "x\n")
        return Implemented(step(Outcome.EDITED, 1))

    checks = Checks([PASSED])
    drafted = rounds.go(Scripted([act]), checks, rounds=1)

    assert (drafted.reason, drafted.edit, checks.asked) == ("holds_a_secret", None, [])


def test_the_judge_is_asked_once_about_the_same_contents(rounds: Rounds) -> None:
    judge, checks = Audits(["result_reuse", "work_skipped", ""]), Checks([PASSED])
    other = edits(f"{FASTER}# another\n")

    drafted = rounds.go(
        Scripted([edits(), edits(), other, edits(), other]), checks, judge, rounds=5
    )

    assert len(judge.diffs) == 2
    assert len(checks.asked) == 2
    told = [one.reason for one in drafted.steps if one.role is Role.CHECKS]
    assert told == ["", "rejected_before", "", "rejected_before", "rejected_before"]
    assert "result_reuse: answers of one request for another" in drafted.steps[4].text
    assert (drafted.edit, drafted.fault) == (None, True)


def test_a_change_that_was_never_audited_may_be_handed_in_again(rounds: Rounds) -> None:
    drafts = Drafts(rounds.workspace, lambda told: hypothesis(told.issue), Checks([PASSED]))

    class Silent:
        def review(self, plan, diff, workspace, seen, round) -> Reviewed:
            mute = Step(role=Role.JUDGE, round=round, outcome=Outcome.MALFORMED)
            return Reviewed(mute, rejected=True, feedback="it was not audited")

    run_rounds(Parts(Scripted([edits()]), Silent(), 1), plan(), "brief", drafts, rounds.seen)

    assert drafts.rejected == {}


def test_an_error_of_ours_names_no_place_of_this_machine(rounds: Rounds) -> None:
    checks = Checks([ToolFailed(f"git add failed in {Path.home()}/stack")])

    drafted = rounds.go(Scripted([edits()]), checks)

    assert drafted.steps[-1].text == "git add failed in HOME/stack"


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/somewhere/out/003.jsonl")


def raising(error: Exception) -> Act:
    """An implementer's round under which something breaks."""

    def act(task: Task, workspace: Workspace, check: Callable[[], Checked]) -> Implemented:
        raise error

    return act


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FULL, "No space left on device: /somewhere/out/003.jsonl"),
        (PermissionError(errno.EACCES, "Permission denied"), "Permission denied"),
        (ToolFailed(f"git add failed in {Path.home()}/stack"), "git add failed in HOME/stack"),
    ],
)
def test_what_breaks_under_an_implementer_is_told_as_its_own_and_is_nobodys_fault(
    rounds: Rounds, error: Exception, words: str
) -> None:
    drafted = rounds.go(Scripted([raising(error), edits()]), Checks([PASSED]))

    assert roles(drafted) == [(Role.IMPLEMENTER, 1, Outcome.BROKE)]
    assert drafted.steps[0].text == words
    assert (drafted.edit, drafted.reason, drafted.fault) == (None, "broke", False)


def test_a_round_that_says_of_itself_that_something_broke_is_the_last(rounds: Rounds) -> None:
    def act(task, workspace, check):
        return Implemented(step(Outcome.BROKE, 1, "it could not go on"), fault=False)

    drafted = rounds.go(Scripted([act, edits()]), Checks([PASSED]))

    assert (len(drafted.steps), drafted.fault) == (1, False)


def test_what_breaks_under_the_judge_is_told_as_its_own_and_leaves_no_candidate(
    rounds: Rounds,
) -> None:
    class Breaking:
        def review(self, plan, diff, workspace, seen, round) -> Reviewed:
            raise FULL

    drafted = rounds.go(Scripted([edits(), edits()]), Checks([PASSED]), Breaking())

    assert roles(drafted) == [
        (Role.IMPLEMENTER, 1, Outcome.EDITED),
        (Role.CHECKS, 1, Outcome.PASSED),
        (Role.JUDGE, 1, Outcome.BROKE),
    ]
    assert (drafted.edit, drafted.hypothesis, drafted.fault) == (None, None, False)


def test_what_breaks_while_a_draft_is_looked_at_is_told_with_all_that_went_before(
    rounds: Rounds,
) -> None:
    """The worktree that a workspace is a copy of must not change."""

    def act(task, workspace, check):
        workspace.write(MODEL, FASTER)
        (workspace._origin / MODEL).write_text("moved\n")
        return Implemented(step(Outcome.EDITED, 1))

    drafted = rounds.go(Scripted([act, edits()]), Checks([PASSED]))

    assert roles(drafted) == [
        (Role.IMPLEMENTER, 1, Outcome.EDITED),
        (Role.CHECKS, 1, Outcome.BROKE),
    ]
    assert "changed while an agent worked" in drafted.steps[1].text


def test_what_stops_the_run_passes_through_whoever_it_came_under(rounds: Rounds) -> None:
    with pytest.raises(JournalBroken):
        rounds.go(Scripted([raising(JournalBroken("the disk is full"))]), Checks([PASSED]))


def test_a_reason_is_cut_where_no_half_of_a_secret_is_left(rounds: Rounds) -> None:
    detail = "x" * (MOST_FEEDBACK - len(SECRET) // 2) + SECRET
    checks = Checks([Checked((), passed=False, reason="outputs_differ", detail=detail), PASSED])
    implementer = Scripted([edits(f"{SOURCE}# broken\n"), edits()])
    rounds.seen = Seen(partial(redact, secrets=(SECRET,)))

    rounds.go(implementer, checks)

    assert SECRET[: len(SECRET) // 2] not in implementer.tasks[1].feedback


def test_what_asks_for_more_than_its_agent_is_given_is_noted(rounds: Rounds) -> None:
    def act(task, workspace, check):
        workspace.write(MODEL, FASTER)
        place = workspace.root / ".claude"
        place.mkdir()
        (place / "settings.json").write_text('{"permissions": {"allow": ["*"]}}')
        return Implemented(step(Outcome.EDITED, 1))

    drafted = rounds.go(Scripted([act]), Checks([PASSED]), rounds=1)

    assert drafted.reason == "workspace_refused"
    assert [(one.place, one.kind) for one in rounds.seen.suspicions] == [
        (".claude/settings.json:1", "asks_for_more"),
    ]


# --- the checks -----------------------------------------------------------------------------------


def test_the_draft_that_the_implementer_had_checked_is_not_checked_again(rounds: Rounds) -> None:
    asked: list[Checked] = []

    def act(task, workspace, check):
        workspace.write(MODEL, FASTER)
        asked.append(check())
        return Implemented(step(Outcome.EDITED, 1))

    checks = Checks([PASSED])
    drafted = rounds.go(Scripted([act]), checks)

    assert asked == [PASSED]
    assert len(checks.asked) == 1
    assert drafted.edit is not None


def test_what_was_changed_after_a_check_is_checked(rounds: Rounds) -> None:
    def act(task, workspace, check):
        workspace.write(MODEL, FASTER)
        check()
        workspace.write(MODEL, f"{FASTER}# and more\n")
        return Implemented(step(Outcome.EDITED, 1))

    drafted = rounds.go(Scripted([act]), Checks([PASSED, DIFFERS]), rounds=1)

    assert (drafted.edit, drafted.reason) == (None, "outputs_differ")


def test_an_implementer_may_ask_so_many_times_and_the_framework_asks_all_the_same(
    rounds: Rounds,
) -> None:
    answers: list[str] = []

    def act(task, workspace, check):
        for number in range(MOST_CHECKS + 2):
            workspace.write(MODEL, f"{FASTER}# {number}\n")
            answers.append(check().reason)
        return Implemented(step(Outcome.EDITED, 1))

    checks = Checks([PASSED])
    drafted = rounds.go(Scripted([act]), checks)

    assert answers == [""] * MOST_CHECKS + ["checks_spent"] * 2
    assert len(checks.asked) == MOST_CHECKS + 1
    assert drafted.edit is not None


def test_a_check_costs_time_and_no_money(rounds: Rounds) -> None:
    cost = rounds.go(Scripted([edits()]), Checks([PASSED])).steps[1].cost
    assert cost == Cost(usd=0.0, wall_s=cost.wall_s)


def test_a_tool_that_breaks_is_nobodys_fault_and_ends_the_rounds(rounds: Rounds) -> None:
    checks = Checks([ToolFailed("the server does not start")])

    drafted = rounds.go(Scripted([edits(), edits()]), checks)

    assert (drafted.reason, drafted.fault) == (CHECK_BROKE, False)
    assert len(drafted.steps) == 2


@pytest.mark.parametrize("reason", ["tool_failed", "evaluator_changed", "machine_too_noisy"])
def test_checks_that_came_to_no_answer_are_nobodys_fault_either(
    rounds: Rounds, reason: str
) -> None:
    drafted = rounds.go(
        Scripted([edits(), edits()]), Checks([Checked((), passed=False, reason=reason)])
    )

    assert (drafted.edit, drafted.reason, drafted.fault) == (None, reason, False)
    assert len(drafted.steps) == 2


def test_a_path_that_git_refuses_is_its_authors_to_mend(rounds: Rounds) -> None:
    implementer = Scripted([edits(SOURCE + "# a\n"), edits()])

    drafted = rounds.go(implementer, Checks([InvalidInput("no such path"), PASSED]))

    assert drafted.edit is not None
    assert "edit_refused" in implementer.tasks[1].feedback


def test_what_stops_the_run_passes_through(rounds: Rounds) -> None:
    with pytest.raises(JournalBroken):
        rounds.go(Scripted([edits()]), Checks([JournalBroken("the disk is full")]))


# --- an implementer that plans, too ---------------------------------------------------------------


def planning(issue: str) -> Act:
    def act(task: Task, workspace: Workspace, check: Callable[[], Checked]) -> Implemented:
        workspace.write(MODEL, FASTER)
        return Implemented(step(Outcome.EDITED, task.round), plan(issue))

    return act


def test_a_plan_that_cannot_be_tried_is_told_to_who_wrote_it(rounds: Rounds) -> None:
    def accept(told: Plan) -> Hypothesis:
        if told.issue == "wrong":
            raise PlanRefused("model: this stack serves features")
        return hypothesis(told.issue)

    implementer = Scripted([planning("wrong"), planning("right")], plans=True)
    drafted = rounds.go(implementer, Checks([PASSED]), accept=accept)

    assert implementer.tasks[0].plan is None
    assert "model: this stack serves features" in implementer.tasks[1].feedback
    assert [one.reason for one in drafted.steps if one.role is Role.CHECKS] == ["plan_refused", ""]
    assert drafted.plan == plan("right")
    assert drafted.hypothesis == hypothesis("right")


def test_without_a_plan_nothing_is_checked(rounds: Rounds) -> None:
    checks = Checks([PASSED])

    drafted = rounds.go(Scripted([edits()], plans=True), checks, rounds=1)

    assert (drafted.plan, drafted.reason, checks.asked) == (None, "no_plan", [])


def test_an_implementer_that_was_given_a_plan_does_not_change_it(rounds: Rounds) -> None:
    drafted = rounds.go(Scripted([planning("its-own")]), Checks([PASSED]))
    assert drafted.plan == plan()
    assert drafted.hypothesis == hypothesis(plan().issue)
