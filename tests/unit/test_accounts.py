"""The gates over a whole trial: CPU of whole arms, void pairs, neighbours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from layers.base import Candidate, ChangeClass, Edit, Hypothesis, LayerName
from layers.evidence import Block, GateResult, Pair, VoidPair
from layers.trial import accounts
from layers.trial.trial import Trial


def trial(change_class: ChangeClass = ChangeClass.EXACT) -> Trial:
    hypothesis = Hypothesis(
        layer=LayerName.FEATURES,
        card="card",
        transform="card",
        model="m",
        title="Title",
        why="because",
        share=0.5,
        expected_gain=0.5,
        best_gain=0.8,
        change_class=change_class,
    )
    edit = Edit({"models/m/1/model.py": b""}, "Do it", "It is right.")
    return Trial(1, Candidate(hypothesis, edit, "fvec/b", "base", "head", Path("/w"), "diff"))


def with_cpu(ratio: float, change_class: ChangeClass = ChangeClass.EXACT) -> Trial:
    """A trial of one launch of four pairs and four fresh pairs, whose CPU ratios vary by 1 %."""
    rng, made = np.random.default_rng(1), trial(change_class)
    launches = [1] * 4 + [2, 3, 4, 5]
    pairs = [
        Pair(
            launch=launch,
            pair=1,
            throughput_ratio=1.4,
            cpu_ratio=ratio * float(np.exp(rng.normal(0, 0.01))),
        )
        for launch in launches
    ]
    made.pairs, made.confirm = pairs[:4], pairs[4:]
    return made


def answer(found: Trial) -> tuple[GateResult, str]:
    gate = accounts.cost(found)
    return gate.result, gate.reason


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (1.5, (GateResult.PASS, "cpu_not_more")),
        (1.0, (GateResult.PASS, "cpu_not_more")),
        (0.97, (GateResult.PASS, "cpu_not_more")),  # within the margin
        (0.6, (GateResult.FAIL, "costs_more_cpu")),
    ],
)
def test_code_may_not_take_more_cpu_per_request(ratio, expected):
    assert answer(with_cpu(ratio)) == expected


def test_more_cpu_of_a_configuration_is_for_its_reviewer():
    assert answer(with_cpu(0.6, ChangeClass.CONFIG)) == (GateResult.PASS, "cpu_for_the_reviewer")


def test_the_unit_is_the_launch_and_the_detail_says_how_much():
    gate = accounts.cost(with_cpu(0.5))
    assert gate.detail.startswith("the whole arm takes 1.99")
    assert gate.detail.endswith(", 5 launches")


def test_one_launch_tells_nothing_of_cpu():
    made = with_cpu(0.6)
    made.confirm = []
    assert answer(made) == (GateResult.PASS, "cpu_not_more")


def test_the_gates_of_an_honest_trial_pass():
    gates = list(accounts.gates(with_cpu(1.2)))
    assert [(gate.name, gate.result, gate.reason) for gate in gates] == [
        ("cost", GateResult.PASS, "cpu_not_more"),
        ("voids", GateResult.PASS, "voids_even"),
        ("neighbours", GateResult.PASS, "neighbours_even"),
    ]


def test_one_sided_voids_leave_a_trial_undecided_and_are_recorded():
    made = trial()
    dropped = VoidPair(
        launch=1, pair=1, measure="work", arms=["candidate"], reason="x", requests=60
    )
    made.ledger.voids = [dropped] * 12
    gate = accounts.voids(made)
    assert (gate.result, gate.reason) == (GateResult.INCONCLUSIVE, "voids_one_sided")
    assert gate.detail.startswith("only the candidate's block was void 12 times")


def test_neighbours_on_one_side_leave_a_trial_undecided():
    made = trial()
    for place in range(8):
        made.ledger.kept.append(
            {
                arm: Block(
                    arm=arm,
                    measure="work",
                    launch=1,
                    pair=place,
                    position=1,
                    requests=100,
                    completed=100,
                    errors=0,
                    wall_s=1.0,
                    rate=100.0,
                    generator_cpu=0.1,
                    neighbour_cpu=cores + 0.001 * place,
                )
                for arm, cores in (("baseline", 0.15), ("candidate", 0.01))
            }
        )
    gate = accounts.neighbours(made)
    assert (gate.result, gate.reason) == (GateResult.INCONCLUSIVE, "neighbours_one_sided")
