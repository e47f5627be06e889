"""Two kills in one run: what the first cut short is paid for at once, and every later life agrees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layers.record.answers import GOES_ON
from layers.record.journal import read
from tests.survival import lives, world
from tests.survival.test_faults import FIRST, Place, _kill_after
from tests.survival.test_faults import place as place

BUDGET = "budget:\n  candidates: 2\n"


def verdicts(place: Place) -> list[tuple[int, str]]:
    report = json.loads((place.out / "run.json").read_text())
    return [(found["n"], found["verdict"]) for found in report["iterations"]]


def killed_again(place: Place, kind: str) -> list[int]:
    """Go on, be killed after a line of a kind; return the candidates with a verdict by then."""
    end = place.run("--resume", prepare=lambda: _kill_after(kind, 1))
    assert (end.code, read(place.journal)[-1].kind) == (None, kind), end.said
    return [entry.data["n"] for entry in read(place.journal) if entry.kind == "iteration"]


def test_a_cut_attempt_is_paid_for_by_the_life_that_goes_on(place):
    manifest = place.root / ".github" / "fvec.yml"
    manifest.write_text(manifest.read_text() + BUDGET)
    world.git(place.root, "commit", "--quiet", "--all", "--message", "Two candidates")
    place.killed_after("look")
    assert killed_again(place, "totals") == [1]
    end = place.run("--resume")
    assert end.code == 0, end.said
    assert verdicts(place) == [(1, "accepted")]


def test_a_look_that_ends_a_trial_is_told_with_the_verdict_alone(place):
    assert place.run().code == 0
    entries = read(place.journal)
    looks = [entry.data["decision"] for entry in entries if entry.kind == "look"]
    assert set(looks) <= {*GOES_ON}
    refused = [e.data for e in entries if e.kind == "iteration" and e.data["verdict"] == "rejected"]
    assert any(found["looks"][-1]["decision"] == "reject" for found in refused)


def taken(root: Path) -> None:
    """Let a reviewer have the first branch."""
    world.git(root, "branch", FIRST, "main")


@pytest.fixture(scope="module")
def with_a_refused_branch(tmp_path_factory):
    """What a run leaves that nobody disturbed, where a reviewer has the first branch."""
    folder = tmp_path_factory.mktemp("refused")
    lives.preload(folder / "before", begin=taken)  # what a life works out is forgotten with it
    whole = Place(folder, world.repository(folder / "ads"), folder / "out", None)
    taken(whole.root)
    end = whole.run()
    assert end.code == 0, end.said
    return world.outcome(whole.root, whole.out)


@pytest.mark.parametrize("kind", ["candidate_refused", "totals"])
def test_a_run_with_a_refused_branch_goes_on_to_the_same_result(place, with_a_refused_branch, kind):
    taken(place.root)
    place.killed_after(kind)
    end = place.run("--resume")
    assert end.code == 0, end.said
    left = world.outcome(place.root, place.out)
    assert left == with_a_refused_branch
    assert any("not the bot's" in line for line in left["report"]["not_tried"])
