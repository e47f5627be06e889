"""Pairs that stand alone in their launch."""

import numpy as np
import pytest

from layers.measure.stats import noise_floor, outlying_pair, outlying_pairs

NOISE = noise_floor([[0.004, -0.006, 0.001, 0.003], [-0.002, 0.005, -0.004, -0.001]])  # sd 0.4 %
ROUGH = NOISE.model_copy(update={"pair_sd_pct": 2.0})


@pytest.mark.parametrize(
    ("pairs", "found"),
    [
        ([0.001, 0.002, 0.12, 0.0], 2),
        ([0.12, 0.002, 0.001, 0.0], 0),
        ([0.001, 0.002, -0.12, 0.0], None),  # the candidate may have stalled: it counts
        ([0.001, 0.002, 0.02, 0.0], None),  # less than six times the least pair sd
        ([0.0, 0.05, 0.10, 0.15], None),  # wide, nothing stands alone
        ([0.0, 0.0, 0.12, 0.12], None),  # two alike
        ([-0.03, 0.0, 0.03, 0.12], None),  # far, and the others differ as much
        ([0.05, 0.051, 0.049, 0.05], None),  # a shift of all is an effect
        ([0.0, 0.0, 0.0, 0.0], None),
        ([0.0, 0.2], None),
        ([0.2], None),
        ([], None),
    ],
)
def test_only_a_pair_far_above_all_others_is_outlying(pairs, found):
    assert outlying_pair(pairs, NOISE) == found


def test_what_is_far_is_measured_in_a_a_standard_deviations():
    pairs = [0.001, 0.002, 0.10, 0.0]
    assert outlying_pair(pairs, NOISE) == 2
    assert outlying_pair(pairs, ROUGH) is None


def test_arrays_are_judged_as_single_launches_are():
    rng = np.random.default_rng(3)
    launches = rng.standard_t(2, (500, 4)) * 0.01
    found = outlying_pairs(launches, np.array(NOISE.pair_sd_pct / 100))
    single = [outlying_pair(launch.tolist(), NOISE) for launch in launches]
    assert [None if i < 0 else i for i in found.tolist()] == single
    assert sum(i is not None for i in single) > 5


def test_two_large_pairs_in_one_launch_are_both_kept():
    assert outlying_pair([0.3, 0.29, 0.0, 0.001], NOISE) is None
