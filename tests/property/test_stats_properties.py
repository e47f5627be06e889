"""Facts about the statistics that hold for any data."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from layers.evidence import GateResult
from layers.measure.stats import (
    LookPlan,
    bootstrap_quantile_ratio,
    commit_gate,
    confirm,
    difference_of_shares_ci,
    look,
    noise_floor,
    obrien_fleming,
    outlying_pair,
    ratio_between,
    ratio_ci,
)

logs = st.floats(-2, 2)
pairs = st.lists(logs, min_size=4, max_size=4)
noises = st.lists(pairs, min_size=1, max_size=3).map(noise_floor)
candidates = st.sampled_from([1, 2, 4, 8]).flatmap(
    lambda k: st.lists(pairs, min_size=k, max_size=k)
)
plans = st.builds(LookPlan, candidates=st.sampled_from([1, 10, 100]))
counts = st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0.05, 1), min_size=1, max_size=6), st.floats(1e-5, 0.2))
def test_boundaries_cost_alpha_between_the_last_look_alone_and_bonferroni(steps, alpha):
    fractions = (*(np.cumsum(steps) / np.sum(steps))[:-1].tolist(), 1.0)
    boundary = obrien_fleming(alpha, fractions)
    tails = [0.5 * math.erfc(z / math.sqrt(2)) for z in boundary]
    assert tails[-1] <= alpha * (1 + 1e-6)
    assert sum(tails) >= alpha * (1 - 1e-6)


@settings(deadline=None, max_examples=50)
@given(candidates, noises, plans)
def test_a_look_is_consistent_with_its_own_numbers(launches, noise, plan):
    found = look(launches, noise, plan)
    assert found.ci[0] < found.estimate < found.ci[1]
    assert found.gain == pytest.approx(1 - 1 / found.estimate, abs=1e-12)
    assert (
        found.z * math.log(found.estimate) >= 0
    )  # of one sign, where the ratio is not rounded to 1
    if found.decision == "accept":
        assert found.gain > found.floor
        assert found.z >= found.boundary
    if found.k == plan.looks[-1]:
        assert found.decision != "continue"
    if found.reason == "slower":
        assert found.ci[1] < 1


@settings(deadline=None, max_examples=50)
@given(candidates, noises, plans)
def test_a_look_does_not_depend_on_the_order_of_pairs_or_launches(launches, noise, plan):
    turned = [list(reversed(launch)) for launch in reversed(launches)]
    first, second = look(launches, noise, plan), look(turned, noise, plan)
    assert first.estimate == pytest.approx(second.estimate)
    assert first.z == pytest.approx(second.z, abs=1e-9)


@settings(deadline=None, max_examples=50)
@given(candidates, noises, plans, st.floats(0.001, 1))
def test_a_larger_effect_never_turns_an_acceptance_away(launches, noise, plan, more):
    shifted = [[x + more for x in launch] for launch in launches]
    if look(launches, noise, plan).decision == "accept":
        assert look(shifted, noise, plan).decision == "accept"


@settings(deadline=None, max_examples=50)
@given(st.lists(pairs, min_size=1, max_size=4), st.lists(pairs, min_size=1, max_size=2))
def test_the_floor_never_lies_below_what_was_seen(launches, again):
    noise = noise_floor(launches)
    assert noise.floor_pct >= max(abs(d) for d in noise.launch_differences_pct) - 1e-9
    assert noise.floor_pct > 0
    assert noise_floor(again, noise).floor_pct >= noise.floor_pct


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=20))
def test_the_ratio_of_swapped_arms_is_the_inverse(ratios):
    there, back = ratio_ci(ratios), ratio_ci([1 / x for x in ratios])
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.ci == pytest.approx((1 / back.ci[1], 1 / back.ci[0]), rel=1e-6)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0.5, 2), min_size=4, max_size=8), noises)
def test_a_confirmation_with_noise_is_never_narrower(ratios, noise):
    values = [math.log(r) for r in ratios]
    alone, honest = confirm([values]), confirm([values], noise)
    assert honest.ci[0] <= alone.ci[0] <= alone.ratio * (1 + 1e-12)
    assert honest.ci[1] >= alone.ci[1]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0.5, 2), min_size=2, max_size=8), noises)
def test_fresh_launches_with_noise_are_never_narrower_and_keep_their_ratio(ratios, noise):
    values = [[math.log(r)] for r in ratios]
    alone, honest = confirm(values), confirm(values, noise)
    assert alone.ratio == honest.ratio
    assert honest.ci[0] <= alone.ci[0] * (1 + 1e-12)
    assert honest.ci[1] >= alone.ci[1] * (1 - 1e-12)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0.5, 2), min_size=3, max_size=8))
def test_an_estimate_does_not_differ_from_itself(ratios):
    estimate = ratio_ci(ratios)
    found = ratio_between(estimate, estimate)
    assert found.ci[0] <= found.ratio == 1.0 <= found.ci[1]


@settings(deadline=None, max_examples=50)
@given(counts, counts)
def test_the_interval_of_shares_holds_the_difference_and_mirrors(a, b):
    difference, (low, high) = difference_of_shares_ci(*a, *b)
    assert -1 - 1e-9 <= low - 1e-12 <= difference <= high + 1e-12 <= 1 + 1e-9
    mirrored, (mirrored_low, mirrored_high) = difference_of_shares_ci(*b, *a)
    assert (mirrored, mirrored_low, mirrored_high) == pytest.approx((-difference, -high, -low))


@settings(deadline=None, max_examples=50)
@given(counts, counts)
def test_the_commit_gate_never_passes_a_share_worse_by_the_margin(a, b):
    difference, _, result, _ = commit_gate(*a, *b)
    if result is GateResult.PASS:
        assert difference < 0.01
        assert min(a[1], b[1]) >= 1000


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.floats(0.5, 2))
def test_the_quantile_ratio_scales_with_an_arm(seed, factor):
    latency = np.random.default_rng(seed).lognormal(0, 0.3, 120)
    base = bootstrap_quantile_ratio(latency, latency, 0.9, 10, resamples=20)
    scaled = bootstrap_quantile_ratio(latency * factor, latency, 0.9, 10, resamples=20)
    assert base is not None
    assert scaled is not None
    assert base.ratio == 1.0
    assert scaled.ratio == pytest.approx(factor)
    assert scaled.ci == pytest.approx((base.ci[0] * factor, base.ci[1] * factor))


@settings(deadline=None, max_examples=100)
@given(st.lists(logs, min_size=3, max_size=8), noises, st.floats(-1, 1))
def test_an_outlying_pair_is_the_largest_and_no_shift_of_all_pairs_makes_one(found, noise, shift):
    index = outlying_pair(found, noise)
    if index is not None:
        assert found[index] == max(found)
        assert found.count(found[index]) == 1
        rest = [x for i, x in enumerate(found) if i != index]
        assert max(found) - max(rest) > 6 * noise.pair_sd_pct / 100
        assert outlying_pair([-x for x in found], noise) is None
        assert outlying_pair(rest, noise) in {None, *range(len(rest))}
        moved = [x + shift for x in found]
        assert outlying_pair(moved, noise) in {index, None}  # None: on the edge, by rounding


@settings(deadline=None, max_examples=50)
@given(candidates, noises)
def test_no_look_asks_for_less_than_the_assumed_launch_shift_does(launches, noise):
    plan = LookPlan(candidates=10)
    found = look(launches, noise, plan)
    standard = plan.standard(len(launches), noise.launches)
    least = standard.boundary * standard.least_sd / math.sqrt(len(launches))
    assume(abs(found.z) > 1e-3)
    asked = found.boundary * math.log(found.estimate) / found.z  # that many standard errors
    assert asked >= least * (1 - 1e-6)
