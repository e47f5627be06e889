"""What the rule does to candidates without effect on machines that are not as it assumes.

`pytest -s` shows the figures; the long runs are in `benchmarks/test_bench_statistics.py`.
"""

import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from layers.measure.boundaries import LookPlan
from layers.measure.intervals import at_most
from layers.measure.simulate import draw, our_rule, outcome, screened, simulate, simulate_rules
from layers.measure.worlds import TWO_STATES, WITHOUT_EFFECT, World, paired, sequential

PLAN = LookPlan(candidates=10)
RUNS = 2500
USUAL = World(1.0, pair_sd=0.02, launch_sd=0.005, noise_launches=2)
QUIET = replace(USUAL, pair_sd=0.006)


def show(line):
    sys.stdout.write(f"{line}\n")


def logs(world, launches=4000, seed=1):
    return paired(world, np.random.default_rng(seed), (launches,), 4)


# --- the worlds are what they say


def test_the_usual_world_is_the_model_of_the_rule():
    found = logs(replace(USUAL, launch_sd=0.01))
    assert found.shape == (4000, 4)
    assert found.std(1, ddof=1).mean() == pytest.approx(0.02 * 0.921, rel=0.02)  # c4 of four
    assert found.mean(1).std() == pytest.approx(np.hypot(0.01, 0.01), rel=0.05)
    assert found.mean() == pytest.approx(0.0, abs=0.001)


def test_heavy_tails_keep_the_standard_deviation():
    heavy = logs(replace(USUAL, pair_tails="t3"), 100_000)
    assert heavy.std() == pytest.approx(np.hypot(0.02, 0.005), rel=0.05)
    assert stats.kurtosis(heavy.ravel()) > 3


def test_order_effects_do_not_favour_an_arm():
    for world in (replace(QUIET, second_in_pair=0.05), replace(QUIET, second_started=0.05)):
        assert logs(world, 20_000).mean() == pytest.approx(0.0, abs=0.002)


def test_a_server_that_starts_second_shifts_its_whole_launch():
    found = logs(replace(QUIET, second_started=0.05)).mean(1)
    assert found.std() == pytest.approx(0.05, rel=0.02)


def test_balanced_orders_cancel_over_two_launches():
    world = replace(QUIET, second_started=0.05, balanced_starts=True)
    found = paired(world, np.random.default_rng(1), (500, 8), 4).mean(-1)
    two = found.reshape(500, 4, 2).mean(-1)
    assert two.std() == pytest.approx(np.hypot(0.005, 0.003) / np.sqrt(2), rel=0.1)


def test_arms_that_remember_shift_their_launch_and_a_machine_that_remembers_does_not():
    arm = logs(replace(USUAL, launch_sd=0.0, arm_memory=0.8)).mean(1).std()
    machine = logs(replace(USUAL, launch_sd=0.0, machine_memory=0.8)).mean(1).std()
    assert arm > 0.015
    assert machine < 0.01


def test_an_outlying_block_hits_one_pair_of_its_launch():
    found = logs(replace(QUIET, pair_sd=0.0, launch_sd=0.0, outliers=1.0))
    assert (np.count_nonzero(found, axis=1) == 1).all()
    sizes = np.abs(found).max(1)
    assert sizes.min() >= 0.05
    assert sizes.max() <= 0.20


def test_rates_that_are_read_in_steps_give_ties():
    found = logs(replace(QUIET, quantum=0.02))
    assert np.unique(np.round(found / 0.02, 6)).tolist() == [-2.0, -1.0, 0.0, 1.0, 2.0]


def test_a_drift_goes_on_from_all_of_a_to_all_of_b():
    world = replace(QUIET, pair_sd=0.0, launch_sd=0.0, drift_sd=0.01)
    found = sequential(world, np.random.default_rng(1), (2000,), 4)
    assert found.shape == (2000, 2, 4)
    slopes = np.diff(found.reshape(2000, 8), axis=1)
    assert np.ptp(slopes, axis=1).max() < 1e-12
    assert slopes[:, 0].std() == pytest.approx(0.01, rel=0.05)


def test_worlds_are_drawn_alike_from_one_seed():
    world = WITHOUT_EFFECT["arms remember, AR(1) 0.8"]
    first, second = (draw(world, PLAN, 3, seed=5) for _ in range(2))
    assert np.array_equal(first.pairs, second.pairs)
    assert np.array_equal(first.noise, second.noise)
    assert np.array_equal(first.fresh, second.fresh)
    assert first.pairs.shape == (3, 10, 8, 4)
    assert first.fresh.shape == (3, 10, 4)
    assert first.noise.shape == (3, 1, 2, 4)
    assert first.sequential.shape == (3, 10, 2, 4)


# --- false accepts


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_false_accepts_of_a_run_of_ten_stay_below_one_percent(name):
    found = simulate_rules(PLAN, WITHOUT_EFFECT[name], RUNS, seed=17)
    rates = "  ".join(f"{rule} {100 * o.per_run:.2f} %" for rule, o in found.items())
    show(f"{name}:  {rates}  confirmed: {100 * found['fvec'].confirmed_per_run:.2f} %")
    # Known: in two states 2 % apart, eight launches agree by chance too often for the looks alone.
    # The verdict, which asks for positive fresh pairs of one more launch, holds there too.
    allowed = 0.015 if name == TWO_STATES else 0.01
    slack = 3 * np.sqrt(allowed / RUNS)  # of a simulation this short
    assert found["fvec"].per_run <= allowed + slack
    assert found["fvec"].confirmed_per_run <= 0.01


@pytest.mark.parametrize("apart", [0.1, 0.3, 1.0])
def test_starts_of_two_kinds_pass_looks_and_not_the_verdict(apart):
    world = replace(WITHOUT_EFFECT["launches shift by 0.5 %, pairs 0.6 %"], kinds=apart)
    found = simulate(PLAN, world, RUNS, seed=29)
    show(
        f"starts {apart:.0%} apart: {found.per_candidate:.1%} of candidates pass the looks, "
        f"{found.confirmed_per_candidate:.1%} the verdict"
    )
    assert found.per_candidate > 0.15
    assert found.confirmed_per_candidate < 0.05


def test_a_gain_of_three_percent_is_seldom_lost_to_a_fresh_start():
    found = simulate(PLAN, replace(USUAL, ratio=1.03), RUNS, seed=31)
    lost = found.per_candidate - found.confirmed_per_candidate
    show(f"+3 %: {found.per_candidate:.1%} by the looks, {lost:.2%} of them lost afterwards")
    assert lost < 0.02


def test_the_sequential_comparison_takes_drift_for_gains_and_the_paired_rule_does_not():
    found = simulate_rules(PLAN, replace(USUAL, drift_sd=0.01), 1000, seed=3)
    assert found["sequential"].per_run > 0.9
    assert found["fvec"].per_run == 0.0


def test_a_neighbour_fools_fixed_thresholds_and_not_the_rule():
    found = simulate_rules(PLAN, replace(USUAL, neighbour=0.1), 1000, seed=3)
    assert found["fixed 5 %"].per_run > 0.2
    assert found["published, 6 %"].per_run > 0.1
    assert found["fvec"].per_run == 0.0


def test_a_single_a_a_launch_is_enough_where_launches_shift_as_normal_ones_do():
    for name, world in WITHOUT_EFFECT.items():
        if name.startswith("launches shift"):
            found = simulate(PLAN, replace(world, noise_launches=1), RUNS, seed=19)
            assert found.confirmed_per_run <= 0.01, name


# --- outlying pairs


def rates(world, runs=1500):
    """Return false or true accepts per candidate: as measured, voided upwards, voided both ways."""
    plain = simulate(PLAN, world, runs, seed=7).per_candidate
    kinds = [screened(world, PLAN, runs, 7, both_ways=both) for both in (False, True)]
    return plain, *(outcome(d, PLAN, our_rule(d, PLAN)).per_candidate for d in kinds)


def test_voiding_outlying_pairs_raises_no_false_accepts():
    for name in ("heavy-tailed pairs (t3)", "the same, pairs 0.6 %", "launches shift by 2 %"):
        world = next(w for n, w in WITHOUT_EFFECT.items() if n.startswith(name))
        _, upwards, _ = rates(world)
        assert upwards <= 0.001, name


def test_voiding_outlying_pairs_finds_more_gains_where_blocks_are_hit():
    plain, upwards, _ = rates(replace(QUIET, ratio=1.03, outliers=0.3), 500)
    show(f"+3 %, an outlier in 30 % of launches: accepted {plain:.1%}, voided {upwards:.1%}")
    assert upwards > plain + 0.02


@pytest.mark.parametrize("stalls", [0.05, 0.15])
def test_a_candidate_cannot_hide_its_own_stalls_in_void_pairs(stalls):
    world = replace(QUIET, ratio=float(np.exp(0.2 * stalls)), stalls=stalls)  # no gain on average
    plain, upwards, both = rates(world, 500)
    show(f"stalls in {stalls:.0%}: accepted {plain:.1%}, voided {upwards:.1%}, both {both:.1%}")
    assert upwards == pytest.approx(plain, abs=0.02)
    assert both > 3 * plain  # why pairs far below the others stay


# --- bounds


@pytest.mark.parametrize(
    ("events", "trials", "bound"),
    [(0, 60, 1 - 0.05 ** (1 / 60)), (0, 10_000, 2.995e-4), (3, 60, 0.12419), (60, 60, 1.0)],
)
def test_the_upper_bound_is_that_of_clopper_and_pearson(events, trials, bound):
    assert at_most(events, trials) == pytest.approx(bound, rel=1e-3)
    if events < trials:
        assert stats.binom.cdf(events, trials, at_most(events, trials)) == pytest.approx(0.05)


@pytest.mark.parametrize(("events", "trials"), [(-1, 3), (4, 3), (0, 0)])
def test_a_bound_of_impossible_counts_is_refused(events, trials):
    with pytest.raises(ValueError, match="no more events than trials"):
        at_most(events, trials)
