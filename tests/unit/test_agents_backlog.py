"""What verdicts make of issues: bug and wrong idea told apart, by every reason that there is."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import get_args

import pytest

import layers
from knowledge.memory import MOST_FINDING, MOST_NOTES, MOST_WHY, Issue, Memory, MemoryFinding
from layers.agents.memory import backlog
from layers.evidence import Verdict
from layers.measure.checks import ENVIRONMENT, VoidReason
from layers.sandbox.base import Ending
from layers.story import IssueStatus, Outcome
from tests import canaries
from tests.agents_judged import COMMIT, ISSUE, MECHANISM, TITLE, judged, plan

TODAY = date(2026, 11, 30)
BEGUN = backlog.started(backlog.opened(Memory(), plan(), "run-1"), ISSUE)
OPEN = Issue(
    id=ISSUE,
    title=TITLE,
    layer="features",
    model="features",
    status="open",
    why="Each look-up scans all inputs of the request, and there are as many as inputs.",
    run="run-1",
)
BUG = judged(Verdict.REJECTED, "outputs_differ", detail="score: 18 of 400 elements differ")
NO_GAIN = judged(Verdict.REJECTED, "below_noise_floor", 1.003)


def settled(memory, iteration, *, seen: bool | None = True, mechanism: str = "") -> Memory:
    return backlog.settled(memory, iteration, seen, mechanism, TODAY)


def issue_of(memory: Memory) -> Issue:
    (issue,) = memory.issues
    return issue


def test_a_plan_opens_an_issue_and_work_on_it_is_one_at_a_time() -> None:
    assert backlog.opened(Memory(), plan(), "run-1").issues == [OPEN]
    assert issue_of(BEGUN) == OPEN.model_copy(update={"status": "in_progress"})
    both = backlog.started(backlog.opened(BEGUN, plan("another"), "run-1"), "another")
    assert [issue.status for issue in both.issues] == ["open", "in_progress"]
    assert [issue.status for issue in backlog.at_rest(both).issues] == ["open", "open"]
    assert backlog.started(Memory(), "unknown") == Memory()


def test_three_bugs_park_an_issue_and_refute_nothing() -> None:
    memory = BEGUN
    for attempts, status in ((1, "open"), (2, "open"), (3, "parked")):
        memory = settled(memory, BUG, mechanism=MECHANISM)
        issue = issue_of(memory)
        assert (issue.status, issue.attempts) == (status, attempts)
        assert issue.why == "rejected (outputs_differ): score: 18 of 400 elements differ"
    assert memory.findings == []


def test_what_ran_as_claimed_and_gained_nothing_is_abandoned_for_a_mechanism() -> None:
    memory = settled(BEGUN, NO_GAIN, mechanism=MECHANISM)
    assert issue_of(memory) == OPEN.model_copy(update={"status": "abandoned", "why": MECHANISM})
    assert memory.findings == [
        MemoryFinding(
            issue=ISSUE,
            change=TITLE,
            verdict="refuted",
            gain=1.003,
            ci=(0.993, 1.013),
            why=MECHANISM,
            commit=COMMIT,
            date=TODAY,
        )
    ]


def test_a_number_alone_abandons_nothing_though_the_candidate_is_refuted() -> None:
    memory = BEGUN
    for n, status in enumerate(("open", "open", "parked")):
        again = NO_GAIN.model_copy(update={"commit": str(n) * 40})
        memory = settled(memory, again, mechanism="  \n")
        assert issue_of(memory).status == status
    assert issue_of(memory).why == (
        "rejected (below_noise_floor), 1.003 times (0.993 to 1.013); nobody named the reason in the "
        "mechanism"
    )
    assert [finding.verdict for finding in memory.findings] == ["refuted"] * 3
    assert memory.named("refuted") == {ISSUE}


@pytest.mark.parametrize("seen", [False, None])
def test_no_gain_of_what_was_not_seen_to_run_refutes_nothing(seen) -> None:
    memory = settled(BEGUN, NO_GAIN, seen=seen, mechanism=MECHANISM)
    assert (issue_of(memory).status, issue_of(memory).attempts) == ("open", 1)
    assert memory.findings == []


def test_an_accepted_candidate_is_done_and_its_commit_is_the_checkpoint() -> None:
    good = judged(Verdict.ACCEPTED, "gain_confirmed", 1.25, skill="fewer-look-ups")
    memory = settled(BEGUN, good, mechanism=MECHANISM)
    issue, (finding,) = issue_of(memory), memory.findings
    assert (issue.status, issue.commit, issue.attempts) == ("done", COMMIT, 0)
    assert issue.why == "accepted (gain_confirmed), 1.250 times (1.240 to 1.260)"
    assert (finding.verdict, finding.gain, finding.ci) == ("accepted", 1.25, (1.24, 1.26))
    assert (finding.why, finding.skill) == (MECHANISM, "fewer-look-ups")


def test_what_is_taken_out_beside_others_is_no_longer_accepted() -> None:
    good = judged(Verdict.ACCEPTED, "gain_confirmed", 1.25)
    memory = settled(BEGUN, good)
    taken = judged(Verdict.REJECTED, "no_gain_on_top_of_others", 1.001)
    memory = settled(memory, taken, mechanism=MECHANISM)
    assert [(f.verdict, f.gain) for f in memory.findings] == [("refuted", 1.001)]
    assert issue_of(memory).status == "abandoned"


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        (Verdict.INCONCLUSIVE, "last_look_reached"),
        (Verdict.FAILED, "tool_failed"),
        (Verdict.FAILED, "outputs_differ"),  # of a tool that broke, whatever it said
    ],
)
def test_what_decides_nothing_leaves_the_issue_open_and_is_not_counted(verdict, reason) -> None:
    memory = settled(BEGUN, judged(verdict, reason, 1.01), mechanism=MECHANISM)
    assert (issue_of(memory).status, issue_of(memory).attempts) == ("open", 0)
    assert memory.findings == []


@pytest.mark.parametrize(
    ("outcome", "counted"),
    [
        (Outcome.FAILED, True),
        (Outcome.REJECTED, True),
        (Outcome.NO_EDIT, True),
        (Outcome.MALFORMED, True),
        (Outcome.OUT_OF_TURNS, True),
        (Outcome.BROKE, True),
        (Outcome.REFUSED, True),
        (Outcome.OUT_OF_BUDGET, False),
        (Outcome.OUT_OF_TIME, False),
        (Outcome.UNREACHABLE, False),
    ],
)
def test_a_story_without_a_candidate_counts_unless_something_else_ended_it(
    outcome, counted
) -> None:
    memory = backlog.no_candidate(BEGUN, ISSUE, outcome, "outputs_differ\nin request 7")
    words = outcome.value.replace("_", " ")
    assert issue_of(memory).status == "open"
    assert issue_of(memory).attempts == counted
    assert issue_of(memory).why == f"{words}: outputs_differ in request 7"
    for _ in range(2):
        memory = backlog.no_candidate(memory, ISSUE, outcome, "")
    assert issue_of(memory).status == ("parked" if counted else "open")
    assert issue_of(memory).why == words


def test_an_issue_that_is_planned_again_keeps_what_is_known() -> None:
    bug = settled(BEGUN, BUG)
    assert issue_of(backlog.opened(bug, plan(), "run-2")).attempts == 1
    parked = settled(settled(bug, BUG), BUG)
    assert issue_of(backlog.opened(parked, plan(), "run-1")).attempts == 3
    assert issue_of(backlog.opened(parked, plan(), "run-2")).attempts == 0
    done = settled(BEGUN, judged(Verdict.ACCEPTED, "gain_confirmed", 1.25))
    again = backlog.opened(done, plan(title="Look up less"), "run-2")
    assert (issue_of(again).status, issue_of(again).commit) == ("open", COMMIT)
    assert issue_of(again).title == "Look up less"
    assert again.findings == done.findings


def test_a_verdict_on_an_issue_that_space_took_is_kept_with_its_issue() -> None:
    memory = settled(Memory(), NO_GAIN, mechanism=MECHANISM)
    assert (issue_of(memory).id, issue_of(memory).status) == (ISSUE, "abandoned")
    assert memory.named("refuted") == {ISSUE}


def test_lines_say_id_place_status_and_why() -> None:
    memory = settled(BEGUN, judged(Verdict.ACCEPTED, "gain_confirmed", 1.25))
    memory = backlog.started(backlog.opened(memory, plan("next", claim="x" * 20), "run-1"), "next")
    memory = settled(memory, judged(Verdict.REJECTED, "build_failed", issue="broken"))
    assert backlog.lines(memory) == [
        f"next (features, features), in progress: {'x' * 20}",
        "broken (features, features), open after 1 that failed: rejected (build_failed)",
        f"{ISSUE} (features, features), done at {COMMIT[:12]}: accepted (gain_confirmed), "
        "1.250 times (1.240 to 1.260)",
    ]


def test_no_text_keeps_a_secret_a_control_character_or_its_length() -> None:
    token = canaries.tokens()["github personal"]
    split = f"{token[:9]}\u200b{token[9:]}"  # invisible, so that no pattern matches at first
    for secret in (token, split):
        hostile = f"\x1b[31m\u202e{secret}\n# a title\n{'long ' * 2000}"
        memory = settled(BEGUN, NO_GAIN, mechanism=hostile)
        memory = settled(memory, BUG.model_copy(update={"card": "other", "detail": hostile}))
        memory = backlog.no_candidate(memory, "other", Outcome.BROKE, hostile)
        memory = backlog.noted(memory, hostile)
        told = memory.model_dump_json() + "".join(backlog.lines(memory))
        assert token not in told
        assert "REDACTED" in told
        texts = [*(i.why for i in memory.issues), *(f.why for f in memory.findings)]
        assert all(text.isprintable() and 0 < len(text) <= MOST_WHY for text in texts)
        assert all(len(f.why) <= MOST_FINDING for f in memory.findings)
        assert memory.notes.splitlines()[1] == "# a title"
        assert len(memory.notes) <= MOST_NOTES
        Memory.model_validate(memory.model_dump())  # what was cleaned is what a file may hold


def test_signs_are_seen_where_all_were_looked_for_and_seen() -> None:
    assert backlog.saw_signs(NO_GAIN)
    assert not backlog.saw_signs(judged(Verdict.REJECTED, "slower", 0.9, seen=False))
    assert not backlog.saw_signs(judged(Verdict.REJECTED, "slower", 0.9, seen=None))
    assert not backlog.saw_signs(judged(Verdict.REJECTED, "slower", 0.9, proposer="cookbook"))


def test_issues_and_stories_know_the_same_statuses() -> None:
    assert set(get_args(Issue.model_fields["status"].annotation)) == {s.value for s in IssueStatus}


# --- every reason is on one side --------------------------------------------------------------

FOLDERS = ("trial", "gates", "measure")  # and `loop.combination`: what ends a trial
PASSING = {
    "paths_allowed",
    "refusals_identical",
    "outputs_identical",
    "outputs_finite",
    "within_limits",
    "within_referee_error",
    "no_memory_seen",
    "memory_not_probed",
    "metric_non_inferior",
    "activation_seen",
    "within_its_plan",
    "gain_above_noise",
    "in_remeasuring_band",
    "slo_not_worse",
    "burst_answered",
    "cpu_not_more",
    "cpu_for_the_reviewer",
    "voids_even",
    "neighbours_even",
}
NO_REASONS = {"correctness", "referee", "baseline", "candidate"}  # gates and arms
CALLS = {"TrialEnded", "_gate", "_fail", "_Failure", "DoesNotServe", "Fault", "NotRun"}
LOOK_DECISIONS = ("accept", "reject", "continue", "inconclusive")
CODE = re.compile(r"[a-z]+(_[a-z]+)*")


def constants(nodes: Iterable[ast.expr]) -> Iterator[str]:
    """Yield what looks like a reason code, also behind `or` and in both branches of a condition."""
    for node in nodes:
        match node:
            case ast.Constant(value=str() as text) if CODE.fullmatch(text):
                yield text
            case ast.IfExp(body=body, orelse=orelse):
                yield from constants([body, orelse])
            case ast.BoolOp(values=values):
                yield from constants(values)


def is_result(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="GateResult")):
            return True
    return False


def reasons_in(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                yield from constants(node.args if name in CALLS else [])
                yield from constants(k.value for k in node.keywords if k.arg == "reason")
            case ast.Tuple(elts=elts) if any(map(is_result, elts)):
                yield from constants(elts)
            case ast.Return(value=ast.Tuple(elts=[ast.Constant(value=word), reason])):
                yield from constants([reason] if word in LOOK_DECISIONS else [])
            case ast.Dict(keys=keys, values=values):
                named = zip(keys, values, strict=True)
                yield from constants(
                    v for k, v in named if isinstance(k, ast.Constant) and k.value == "reason"
                )
            case ast.Assign(targets=[ast.Name(id="reason")], value=value):
                yield from constants([value])
            case ast.For(target=ast.Tuple(elts=[ast.Name(id="reason"), *_]), iter=ast.Tuple()):
                yield from constants(row.elts[0] for row in node.iter.elts)
            case ast.arguments(args=args, defaults=defaults) if defaults:
                named = zip(args[::-1], defaults[::-1], strict=False)
                yield from constants(v for a, v in named if a.arg == "reason")


def reasons() -> set[str]:
    """Every reason code that a trial of this source tree may end with."""
    root = Path(layers.__file__).parent
    files = [path for folder in FOLDERS for path in sorted((root / folder).glob("*.py"))]
    found = {f"{void}_under_load" for void in set(VoidReason) - ENVIRONMENT}
    found |= {str(end) for end in set(Ending) - {Ending.EXITED, Ending.CRASHED}}
    for path in [*files, root / "loop" / "combination.py"]:
        found |= set(reasons_in(ast.parse(path.read_text("utf-8"))))
    return found - PASSING - NO_REASONS


def test_the_table_holds_every_reason_that_ends_a_trial_and_no_other() -> None:
    counts = Counter(reason for side in backlog.REASONS.values() for reason in side)
    assert set(counts) == reasons()
    assert max(counts.values()) == 1


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        ("done", Verdict.ACCEPTED),
        ("implementation", Verdict.REJECTED),
        ("design", Verdict.REJECTED),
        ("undecided", Verdict.INCONCLUSIVE),
        ("tool", Verdict.FAILED),
    ],
)
def test_a_verdict_with_its_reason_is_of_the_side_that_the_table_says(kind, verdict) -> None:
    for reason in backlog.REASONS[kind]:
        assert backlog.kind_of(judged(verdict, reason)) == kind


def test_a_rejection_that_the_table_does_not_know_refutes_nothing() -> None:
    assert backlog.kind_of(judged(Verdict.REJECTED, "brand_new")) == "implementation"
