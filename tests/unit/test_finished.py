"""What of a finished run's ground must be the same for `--resume` to return its report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from knowledge.store import builtin_directory, load_cards
from layers.base import LayerName
from layers.loop import resume
from layers.record.answers import Head
from layers.record.journal import Entry
from layers.repository.stack import Stack
from layers.session import RunOptions
from tests.render_fixture import run_report
from tests.survival.world import git

CPU = "A processor"
OPTIONS = RunOptions(Path("out"), None, None, 0, None, lambda _: None)


@pytest.fixture
def recorded(tiny_repo) -> Head:
    """The head of a run on the tiny stack."""
    report, known = run_report(), load_cards(builtin_directory())
    with Stack.open(tiny_repo) as stack:
        return Head(
            run_id="0123456789ab",
            started_at=report.started_at,
            seed=0,
            stack=report.stack.model_copy(update={"commit": stack.commit, "name": stack.name}),
            environment=report.environment.model_copy(update={"cpu": CPU}),
            basis=resume.basis(stack, tiny_repo, OPTIONS, known),
            base_branch="main",
            knowledge_tip=None,
        )


def since(root, recorded, options=OPTIONS, cards=None, cpu=CPU):
    known = load_cards(cards or builtin_directory())
    with Stack.open(root) as stack:
        return resume.since(recorded, stack, options, known, cpu)


def test_nothing_differs_where_nothing_changed(tiny_repo, recorded):
    assert since(tiny_repo, recorded) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 5}, "seed was 0 and is 5"),
        ({"minutes": 60.0}, "option minutes was null and is 60.0"),
        ({"layers": (LayerName.CONFIG,)}, 'option layers was null and is ["config"]'),
        ({"cookbook": Path("cards")}, "option cookbook was false and is true"),
    ],
)
def test_every_option_that_decides_something_is_compared(tiny_repo, recorded, change, words):
    assert since(tiny_repo, recorded, replace(OPTIONS, **change)) == [words]


def test_commit_cards_machine_and_engine_are_compared(tiny_repo, recorded, tmp_path):
    git(tiny_repo, "commit", "--quiet", "--allow-empty", "--message", "Go on")
    assert [line.split(" was ")[0] for line in since(tiny_repo, recorded)] == ["commit"]
    (tmp_path / "cards").mkdir()
    found = since(tiny_repo, recorded, cards=tmp_path / "cards", cpu="Another")
    assert [line.split(" was ")[0] for line in found] == [
        *("commit", "environment.cpu", "the cards' content")
    ]
    basis = recorded.basis.model_copy(update={"evaluator": {}, "fvec": "0.0"})
    found = since(tiny_repo, recorded.model_copy(update={"basis": basis}))
    assert [line.split(" was ")[0] for line in found] == [
        *("commit", "fvec", "content of fvec, layers/")
    ]


def test_a_head_of_another_version_is_none():
    assert resume.head_of([Entry(0, "", "run_started", {"run_id": "abc"})]) is None
