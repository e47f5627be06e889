"""Several changes written as one candidate, in a real repository."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace

from layers.base import Edit, Hypothesis, LayerName, StackView
from layers.errors import InvalidInput
from layers.loop.sampling import joined
from layers.loop.together import Together
from layers.repository.stack import Stack
from tests.unit.test_loop import hypothesis

NAME = "models/notes.txt"


@dataclass
class Appending:
    """Adds a line to a file after what stands there, as long as `needs` stands there."""

    needs: str = ""

    def optimize(self, hypothesis: Hypothesis, stack: StackView) -> Edit | None:
        place = stack.root / NAME
        text = place.read_text() if place.exists() else ""
        if self.needs not in text:
            return None
        edited = f"{text}{hypothesis.card}\n".encode()
        return Edit({NAME: edited}, f"Add {hypothesis.card}", "Because.")


@dataclass
class Climbing:
    """Would write outside the stack."""

    def optimize(self, hypothesis: Hypothesis, stack: StackView) -> Edit | None:
        raise InvalidInput("../x: not a file of the stack")


FIRST = hypothesis("first", layer=LayerName.SERVER)
SECOND = hypothesis("second")


def written(root, out, **layers: object) -> Edit | None:
    by_name = {LayerName(name): layer for name, layer in layers.items()}
    with Stack.open(root) as stack:
        view = StackView(stack.root, stack.commit, stack.manifest, sys.executable)
        return Together(by_name, stack, out).optimize(joined([FIRST, SECOND]), view)


def test_each_member_is_written_on_top_of_the_one_before(tiny_repo, tmp_path) -> None:
    edit = written(tiny_repo, tmp_path / "out", server=Appending(), features=Appending("first"))
    assert edit is not None
    assert edit.files == {NAME: b"first\nsecond\n"}
    assert edit.summary == "Make 2 changes that were accepted before: first, second"
    assert "Add first (first)\n\nBecause.\n\nAdd second (second)\n\nBecause." in edit.explanation


def test_a_reviewer_is_told_that_members_were_not_measured_singly(tiny_repo, tmp_path) -> None:
    edit = written(tiny_repo, tmp_path / "out", server=Appending(), features=Appending())
    assert "were not measured one by one in this run" in edit.explanation


def test_where_one_cannot_be_written_none_is(tiny_repo, tmp_path) -> None:
    for layer in (Appending("not there"), Climbing()):
        assert written(tiny_repo, tmp_path / "out", server=Appending(), features=layer) is None


def test_no_branch_worktree_or_file_is_left(tiny_repo, tmp_path) -> None:
    def git(*arguments: str) -> str:
        return subprocess.check_output(["git", *arguments], cwd=tiny_repo, text=True)

    def state() -> list[str]:
        return [git("branch", "--list"), git("worktree", "list"), git("status", "--porcelain")]

    before = state()
    written(tiny_repo, tmp_path / "out", server=Appending(), features=Appending("first"))
    written(tiny_repo, tmp_path / "out", server=Appending(), features=Appending("no"))
    assert state() == before
    assert [p for p in (tmp_path / "out").iterdir() if p.is_dir()] == []


def test_members_alone_do_not_change_the_joint_candidates_name() -> None:
    renamed = replace(SECOND, title="another title", share=0.1)
    assert joined([FIRST, renamed]).card == joined([FIRST, SECOND]).card
