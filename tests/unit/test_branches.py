"""The branches of candidates: refusals are noted and repeated, and no two changes share one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from layers.base import ChangeClass, Edit, Hypothesis, LayerName, StackView
from layers.errors import InvalidInput, JournalMismatch
from layers.loop.branches import Branches
from layers.loop.resume import Earlier
from layers.record.journal import Journal
from layers.repository.git import BOT_EMAIL
from layers.repository.stack import Stack
from tests.survival.world import git
from tests.unit.test_resume import HEAD

ASKED = Hypothesis(
    layer=LayerName.FEATURES,
    card="card",
    transform="t",
    model="ranker",
    title="t",
    why="w",
    share=0.5,
    expected_gain=0.5,
    best_gain=0.5,
    change_class=ChangeClass.EXACT,
)
OTHER = replace(ASKED, card="other")


def edit(text: str) -> Edit:
    return Edit({"added.txt": text.encode()}, f"Add {text}", "")


@pytest.fixture
def stack(tiny_repo):
    with Stack.open(tiny_repo) as opened:
        yield opened


def branches(stack: Stack, journal: Journal, out: Path) -> Branches:
    return Branches(stack, journal, Earlier(journal.entries, journal.path), out / "worktrees")


def base(stack: Stack) -> StackView:
    return StackView(stack.root, stack.commit, stack.manifest, Path("python"))


def kinds(journal: Journal) -> list[str]:
    return [entry.kind for entry in journal.entries]


def refused_then_made(stack: Stack, journal: Journal, out: Path):
    """Ask for a branch that a reviewer has pushed to, then for one that is free."""
    made = branches(stack, journal, out)
    with pytest.raises(InvalidInput, match="its last commit is not the bot's") as caught:
        made.commit(1, base(stack), ASKED, edit("one"))
    return caught.value, made.commit(1, base(stack), OTHER, edit("two"))


def test_a_refused_branch_is_noted_and_the_next_change_keeps_its_own_answer(stack, tmp_path):
    git(stack.root, "branch", ASKED.branch, "main")
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append("run_started", HEAD)
    first = refused_then_made(stack, journal, tmp_path)
    assert kinds(journal)[1:] == [
        "candidate_intended",
        "candidate_refused",
        "candidate_intended",
        "candidate",
    ]
    written = len(journal.entries)
    # The process that goes on is refused again, even where the branch is free by now.
    git(stack.root, "branch", "--delete", "--force", ASKED.branch)
    again = refused_then_made(stack, journal, tmp_path)
    assert (str(again[0]), again[1].commit) == (str(first[0]), first[1].commit)
    assert again[1].branch == OTHER.branch
    assert len(journal.entries) == written
    assert git(stack.root, "show", "-s", "--format=%ce", OTHER.branch).strip() == BOT_EMAIL


def test_a_noted_candidate_that_is_refused_by_now_is_no_refusal(stack, tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append("run_started", HEAD)
    branches(stack, journal, tmp_path).commit(1, base(stack), ASKED, edit("one"))
    git(stack.root, "branch", "--force", ASKED.branch, "main")
    with pytest.raises(JournalMismatch, match="its last commit is not the bot's"):
        branches(stack, journal, tmp_path).commit(1, base(stack), ASKED, edit("one"))


def test_models_whose_names_differ_in_signs_alone_have_branches_of_their_own():
    names = ["ranker-v1", "ranker.v1", "ranker..v1", "ranker v1"]
    found = [replace(ASKED, model=name).branch for name in names]
    assert len(set(found)) == len(names)
    assert found[0] == "fvec/features/card-ranker-v1"


def test_a_second_change_never_takes_the_branch_of_the_first(stack, tmp_path):
    alike = replace(ASKED, card="card-ranker", model="x"), replace(ASKED, model="ranker-x")
    assert alike[0].branch == alike[1].branch
    journal = Journal(tmp_path / "journal.jsonl")
    made = branches(stack, journal, tmp_path)
    first = made.commit(1, base(stack), alike[0], edit("one"))
    with pytest.raises(InvalidInput, match="is of another change of this run"):
        made.commit(2, base(stack), alike[1], edit("two"))
    assert git(stack.root, "rev-parse", first.branch).strip() == first.commit
    assert kinds(journal) == ["candidate_intended", "candidate"]
