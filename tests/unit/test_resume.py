"""What a resumed run takes from its journal, and what it refuses."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from layers.agent_settings import BudgetSection
from layers.agents.service.budget import Purse, Usage
from layers.errors import JournalMismatch, Location
from layers.loop.resume import Earlier, refined_since, worked_at
from layers.record.answers import Budget, CommitAnswer, CommitIntent
from layers.record.journal import Entry
from layers.repository.stack import Stack
from layers.story import Role
from tests.render_fixture import run_report
from tests.survival.world import git

REPORT = run_report().model_dump(mode="json")
HEAD = {
    **{name: REPORT[name] for name in ("run_id", "started_at", "seed", "stack", "environment")},
    "basis": {"fvec": "1", "options": {}, "evaluator": {}, "cards": ""},
    "base_branch": "main",
    "knowledge_tip": None,
}
PATH = Path("journal.jsonl")


def at(second: int) -> str:
    return f"2026-01-02T03:04:{second:02d}.000+00:00"


def entries(*lines: tuple[str, object]) -> list[Entry]:
    """A journal with an entry a second."""
    return [
        Entry(seq, at(seq), kind, data)
        for seq, (kind, data) in enumerate([("run_started", HEAD), *lines])
    ]


def candidate(n: int) -> tuple[str, object]:
    return "candidate", {"n": n, "branch": f"b{n}", "commit": "c", "patch": ""}


def iteration(n: int) -> tuple[str, object]:
    return "iteration", {**REPORT["iterations"][0], "n": n}


RESUMED: tuple[str, object] = ("resumed", {"life": 2, "spent_s": 1.0})


def test_answers_are_given_once_and_in_order():
    budgets = [{"left": True, "spent_s": 1.0}, {"left": False, "spent_s": 2.0}]
    earlier = Earlier(entries(*(("budget", b) for b in budgets), ("sampled", "a: drawn")), PATH)
    assert earlier.take("budget", Budget) == Budget(left=True, spent_s=1.0)
    assert earlier.take_text("sampled") == "a: drawn"
    assert earlier.take("budget", Budget) == Budget(left=False, spent_s=2.0)
    assert earlier.take("budget", Budget) is None
    assert earlier.take_text("sampled") is None


def test_an_answer_about_one_candidate_is_not_given_to_another():
    told = Earlier(entries(candidate(1)), PATH)
    assert told.take_of("candidate", CommitAnswer, 1, "b2") is None
    assert told.take_of("candidate", CommitAnswer, 2, "b1") is None
    assert told.take_of("candidate", CommitAnswer, 1, "b1").commit == "c"
    assert told.take_of("candidate", CommitAnswer, 1, "b1") is None


def test_a_new_run_has_nothing_to_take():
    earlier = Earlier([], PATH)
    assert (earlier.head, earlier.lives, earlier.spent_s) == (None, 0, 0.0)
    assert earlier.take("candidate_intended", CommitIntent) is None


def test_the_time_of_all_processes_counts_and_what_lies_between_does_not():
    first, rest = entries(("sampled", "a")), entries(RESUMED, ("sampled", "b"))[1:]
    later = [Entry(e.seq + 1, at(e.seq + 40), e.kind, e.data) for e in rest]
    assert Earlier([*first, *later], PATH).spent_s == 1.0 + 1.0
    assert Earlier([*first, *later], PATH).lives == 2


def test_a_write_that_was_killed_counts_up_to_the_last_that_is_known_of_it():
    first, rest = entries(("sampled", "a")), entries(RESUMED, ("sampled", "b"))[1:]
    later = [Entry(e.seq + 1, at(e.seq + 40), e.kind, e.data) for e in rest]
    worked = [at(0), at(5), at(31), at(50)]  # the last process began at second 41
    assert Earlier([*first, *later], PATH, worked).spent_s == 31.0 + 9.0
    assert Earlier(first, PATH, worked[:3]).spent_s == 31.0
    assert Earlier([], PATH, worked).spent_s == 0.0


def test_the_moments_of_work_are_those_at_which_time_was_counted(tmp_path):
    ledger, now = tmp_path / "spend.jsonl", [0.0]
    assert worked_at(ledger) == []
    purse = Purse(ledger, BudgetSection(), clock=lambda: now[0])
    with purse.working():
        now[0] += 5.0
        purse.promise(Role.PLANNER, Usage(input_tokens=1), None)
    (moment,) = worked_at(ledger)
    assert datetime.fromisoformat(moment).tzinfo is not None
    Purse(ledger, BudgetSection())  # a later process counts the call that was cut off, and no time
    assert worked_at(ledger) == [moment]
    with ledger.open("ab") as file:
        file.write(b'{"kind": "wor')
    assert worked_at(ledger) == [moment]


@pytest.mark.parametrize(
    ("lines", "counted"),
    [
        ([candidate(1), ("block", {}), RESUMED], []),  # no look: nothing was spent
        ([candidate(1), ("look", {})], [1]),  # by what ended the last process
        ([candidate(1), ("look", {}), RESUMED], [1]),
        ([candidate(1), ("look", {}), RESUMED, ("look", {})], [1, 1]),
        ([candidate(1), ("look", {}), iteration(1), ("look", {})], []),  # of an accepted change
        ([candidate(1), ("look", {}), RESUMED, ("look", {}), RESUMED], [1, 1]),
        ([candidate(1), ("look", {}), RESUMED, iteration(1)], [1]),
        ([candidate(1), ("look", {}), iteration(1), RESUMED], []),
        ([candidate(1), ("look", {}), iteration(1), candidate(2), ("look", {}), RESUMED], [2]),
    ],
)
def test_an_attempt_that_was_cut_after_a_look_is_counted(lines, counted):
    earlier = Earlier(entries(*lines), PATH)
    assert [earlier.cut(n) for n in (0, 1, 2)] == [sum(c <= n for c in counted) for n in (0, 1, 2)]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([("budget", {"left": True})], "budget: spent_s: Field required"),
        ([("budget", {"left": "perhaps", "spent_s": 1})], "budget: left: "),
        ([("holiday", {})], "'holiday' is no entry of a run's journal"),
    ],
)
def test_an_entry_that_is_not_ours_is_refused_with_its_line(lines, words):
    with pytest.raises(JournalMismatch, match="the run cannot be resumed: ") as caught:
        Earlier(entries(*lines), PATH)
    assert words in caught.value.message
    assert caught.value.at == Location(PATH, 2)
    assert caught.value.exit_code == 3


def test_a_journal_without_its_beginning_is_refused():
    with pytest.raises(JournalMismatch, match="does not begin with run_started"):
        Earlier([Entry(0, at(0), "sampled", "x")], PATH)


def test_a_card_edit_is_known_by_who_made_it_and_for_which_run(tiny_repo):
    git(tiny_repo, "checkout", "--quiet", "-b", "cards")
    bot = ["-c", "user.name=fvec", "-c", "user.email=fvec@users.noreply.github.com"]
    (tiny_repo / "card.yaml").write_text("a: 1\n")
    git(tiny_repo, "add", "card.yaml")
    git(tiny_repo, *bot, "commit", "--quiet", "--message", "Refine 1 card from run abc")
    git(tiny_repo, "checkout", "--quiet", "main")
    with Stack.open(tiny_repo) as stack:
        found = refined_since(stack, "cards", None, "abc")
        assert found.model_dump(include={"branch", "cards_changed"}) == {
            "branch": "cards",
            "cards_changed": ["card.yaml"],
        }
        assert refined_since(stack, "cards", None, "abd").branch is None
        tip = git(tiny_repo, "rev-parse", "cards").strip()
        assert refined_since(stack, "cards", tip, "abc").branch is None
        assert refined_since(stack, "no-such", None, "abc").branch is None
