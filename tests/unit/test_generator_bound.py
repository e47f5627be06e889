"""Blocks that only the load generator bounds: lower bounds for a candidate, and never against it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from layers.base import Candidate, ChangeClass, Edit, Hypothesis, LayerName
from layers.events import Silent
from layers.evidence import Block, NoiseFloor, Pair, Verdict
from layers.gates.correctness import Limits
from layers.measure import bound
from layers.measure.stats import LookPlan
from layers.trial.trial import Trial, TrialEnded
from layers.trial.verify import Rules, Verifier

NOISE = NoiseFloor(
    floor_pct=5.0, pair_sd_pct=2.0, pairs=8, launches=2, launch_differences_pct=[0.5, -0.5]
)


def block(arm: str, rate: float, *, at_least: bool = False) -> Block:
    return Block(
        arm=arm,
        measure="work",
        launch=1,
        pair=1,
        position=1,
        requests=100,
        completed=100,
        errors=0,
        wall_s=100 / rate,
        rate=rate,
        cpu_s={"tritonserver": 1.0},
        generator_cpu=0.1,
        neighbour_cpu=0.0,
        at_least=at_least,
    )


@pytest.mark.parametrize("at_least", [False, True])
def test_a_pair_says_that_it_is_a_lower_bound(at_least):
    blocks = {
        "baseline": block("baseline", 100.0),
        "candidate": block("candidate", 150.0, at_least=at_least),
    }
    pair = bound.ratios(blocks)
    assert (pair.throughput_ratio, pair.at_least) == (1.5, at_least)
    assert bound.any_bound([pair]) is at_least
    assert bound.any_bound([]) is False


def looked(ratio: float, bounds: int) -> tuple[str, str]:
    """Return how a trial ends after one launch of four pairs, of which some are lower bounds."""
    rules = Rules(NOISE, LookPlan(candidates=1), Limits(), frozenset(), ())
    verifier = Verifier(SimpleNamespace(events=Silent()), rules, None, None, lambda look: None)
    hypothesis = Hypothesis(
        layer=LayerName.FEATURES,
        card="card",
        model="m",
        title="Title",
        why="because",
        share=0.5,
        expected_gain=0.2,
        best_gain=0.4,
        change_class=ChangeClass.EXACT,
        transform="card",
    )
    edit = Edit({"models/m/1/model.py": b""}, "Do it", "It is right.")
    trial = Trial(1, Candidate(hypothesis, edit, "b", "c0", "c1", Path("w"), "patch"))
    trial.pairs = [
        Pair(
            launch=1,
            pair=number,
            throughput_ratio=ratio,
            cpu_ratio=1.0,
            at_least=number < bounds,
        )
        for number in range(4)
    ]
    trial.launches = [trial.pairs]
    try:
        verifier._looks(trial, None, None)
    except TrialEnded as ended:
        return ended.verdict.value, ended.reason
    return "goes on", trial.gates[-1].reason


def test_what_is_measured_in_full_may_be_rejected():
    assert looked(0.8, bounds=0) == (Verdict.REJECTED.value, "slower")


def test_a_lower_bound_rejects_nothing():
    assert looked(0.8, bounds=1) == (Verdict.INCONCLUSIVE.value, "generator_bound")


@pytest.mark.parametrize("bounds", [0, 1, 4])
def test_a_lower_bound_that_is_a_gain_is_one(bounds):
    assert looked(2.0, bounds) == ("goes on", "gain_above_noise")
