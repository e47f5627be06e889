"""The loop asks proposers: when, with what in hand, and what it makes of what they wrote."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from layers.base import Edit, Hypothesis
from layers.errors import InvalidInput
from layers.evidence import Iteration, Verdict
from layers.loop.loop import run_loop
from layers.loop.proposing import Heard, Situation, Written
from layers.story import Story
from tests.unit.test_loop import NEAR, START, Script, Scripted, hypothesis, verified

EDIT = Edit({"models/m/1/model.py": b"x = 1\n"}, "Write it", "It is right.")
BARREN = ""  # stands for a story without a candidate


@dataclass
class Authored(Script):
    """Stations whose proposers write one candidate for each name, then are done."""

    authors: list[str] = field(default_factory=list)
    asked: list[Situation] = field(default_factory=list)
    told: list[Iteration] = field(default_factory=list)

    def write(self, situation):
        self.calls.append("write")
        self.asked.append(situation)
        if not self.authors:
            return None
        name = self.authors.pop(0)
        story = Story(proposer="command", issue=name or "none", title=name, steps=[])
        if name == BARREN:
            return Written(story, {})
        return Written(story, {}, written(name), EDIT)

    def heard(self, iteration, situation):
        self.calls.append(f"heard {iteration.card}")
        self.told.append(iteration)
        return Heard({})


def written(name: str) -> Hypothesis:
    return replace(hypothesis(name), proposer="command")


def run(script: Authored, *layers: Scripted, candidates: int = 10, cookbook: bool = True):
    rng = random.Random(0)
    return run_loop(script, layers, START, rng=rng, candidates=candidates, cookbook=cookbook)


def test_the_cookbook_goes_first_and_then_each_author_is_told_its_verdict():
    script = Authored({"a": Verdict.ACCEPTED}, authors=["w", "v"])
    state, _ = run(script, Scripted((hypothesis("a"),)))
    assert verified(script) == ["1 commit-0+a", "2 commit-0+a+w", "3 commit-0+a+v"]
    assert [call for call in script.calls if call.startswith(("write", "heard"))] == [
        "write",
        "heard w",
        "write",
        "heard v",
        "write",
    ]
    assert [one.card for one in script.told] == ["w", "v"]
    assert state.asked == 3


def test_what_is_accepted_is_what_the_next_author_is_shown():
    script = Authored({"w": Verdict.ACCEPTED}, authors=["w", "v"])
    state, _ = run(script, Scripted(()))
    assert [one.base.commit for one in script.asked] == ["commit-0", "commit-0+w", "commit-0+w"]
    assert [one.number for one in script.asked] == [1, 2, 3]
    assert [one.left for one in script.asked] == [10, 9, 8]
    assert state.iterations[1].hypothesis.on_top == ["w on m"]


def test_without_the_cookbook_no_rule_is_tried():
    script = Authored({"a": Verdict.ACCEPTED}, authors=["w"])
    run(script, Scripted((hypothesis("a"),)), cookbook=False)
    assert verified(script) == ["1 commit-0+w"]


def test_a_story_without_a_candidate_is_no_trial_and_the_next_is_asked():
    script = Authored({"w": Verdict.ACCEPTED}, authors=[BARREN, "w"])
    state, _ = run(script, Scripted(()))
    assert verified(script) == ["1 commit-0+w"]
    assert state.count(Verdict.ACCEPTED) == 1


def test_the_budget_of_candidates_holds_for_authors_too():
    script = Authored(authors=list("abcdef"))
    state, conclusion = run(script, Scripted(()), candidates=2)
    assert len(state.iterations) == 2
    assert conclusion == "stopped after 2 candidates, as the budget says"


def test_near_the_floor_nobody_is_asked():
    script = Authored(authors=["w"], near_floor_at="commit-0")
    _, conclusion = run(script, Scripted(()))
    assert script.asked == []
    assert conclusion == f"stopped: {NEAR.reason}"


@pytest.mark.parametrize("again", [False, True])
def test_a_candidate_that_may_not_be_committed_is_told_unless_it_could_be_later(again):
    script = Authored(authors=["w", "w"] if again else ["w"])
    refusals = [InvalidInput("the branch is not the bot's")]

    class Once(dict):
        def __contains__(self, card):
            return bool(refusals)

        def __getitem__(self, card):
            return refusals.pop()

    script.refused = Once()
    state, _ = run(script, Scripted(()))
    assert bool(state.unwritten) is not again
    assert len(script.told) == (1 if again else 0)
