"""When agents are not asked further: by what the last look can resolve, never by bugs."""

from __future__ import annotations

import pytest

from layers.agents.memory.plateau import LAST_LOOK, plateau, resolvable_ratio
from layers.evidence import NoiseFloor, Verdict
from layers.measure.boundaries import LookPlan
from tests.agents_judged import NOISE, judged

FLAT = judged(Verdict.REJECTED, "below_noise_floor", 1.002, half=0.001, issue="flat")
SLOW = judged(Verdict.REJECTED, "slower", 0.95, half=0.01, issue="slow")
OPEN = judged(Verdict.INCONCLUSIVE, "last_look_reached", 1.004, half=0.01, issue="undecided")
BUG = judged(Verdict.REJECTED, "outputs_differ", issue="bug")
LATE_BUG = judged(Verdict.REJECTED, "more_errors", 1.001, half=0.001, issue="late-bug")
BROKE = judged(Verdict.FAILED, "tool_failed", 1.001, half=0.001, issue="broke")
RULE = judged(Verdict.REJECTED, "slower", 0.9, half=0.01, issue="rule", proposer="cookbook")
GAIN = judged(Verdict.ACCEPTED, "gain_confirmed", 1.004, half=0.001, issue="gain")


def test_three_that_cannot_be_told_from_none_are_a_plateau_with_its_numbers() -> None:
    assert plateau([FLAT, SLOW, FLAT], NOISE) == (
        "plateau: the last 3 candidates that could be measured gained nothing above the noise, by "
        "the upper ends of their intervals: flat at most 1.0030, slow at most 0.9600, flat at most "
        "1.0030 times; after 8 launches 1.0071 times is the least that can be told (noise 2.00 %)"
    )


@pytest.mark.parametrize(
    "iterations",
    [
        [],
        [FLAT, FLAT],
        [FLAT, OPEN, FLAT],  # its interval reaches above what can be resolved
        [FLAT, FLAT, GAIN],  # small, and a gain
        [FLAT, FLAT, BUG, LATE_BUG, BROKE, BUG],  # they say nothing of what is left to gain
        [FLAT, FLAT, RULE, RULE],  # not written by an agent
    ],
)
def test_fewer_or_better_ones_are_none(iterations) -> None:
    assert plateau(iterations, NOISE) is None


@pytest.mark.parametrize(
    "iterations",
    [
        [GAIN, OPEN, FLAT, SLOW, FLAT],  # only the last ones count
        [FLAT, BUG, FLAT, BROKE, LATE_BUG, FLAT, RULE],  # and those between are passed over
    ],
)
def test_only_the_last_measured_ones_count(iterations) -> None:
    assert plateau(iterations, NOISE) is not None


def test_patience_is_how_many() -> None:
    assert plateau([OPEN, FLAT, SLOW], NOISE, patience=2) is not None
    assert plateau([FLAT, SLOW], NOISE, patience=3) is None


def test_what_can_be_resolved_follows_the_measured_noise() -> None:
    assert LookPlan(candidates=1).looks[-1] == LAST_LOOK
    quiet = NoiseFloor(floor_pct=0.5, pair_sd_pct=0.2, pairs=8, launches=2)
    assert resolvable_ratio(quiet) == pytest.approx(1 / (1 - 0.005 / 8**0.5))
    assert plateau([FLAT, FLAT, FLAT], quiet) is None  # 1.003 is above 1.0018
    loud = NoiseFloor(floor_pct=300, pair_sd_pct=100, pairs=8, launches=2)
    assert resolvable_ratio(loud) == float("inf")
    assert plateau([OPEN, OPEN, OPEN], loud) is not None
