"""Intervals of ratios, quantile ratios and shares, and the commit gate."""

import math

import numpy as np
import pytest

from layers.evidence import GateResult
from layers.measure.stats import (
    Estimate,
    bootstrap_quantile_ratio,
    commit_gate,
    confirm,
    confirmed,
    difference_of_shares_ci,
    noise_floor,
    ratio_between,
    ratio_ci,
)

QUIET = noise_floor([[0.004, -0.006, 0.001, 0.003], [-0.002, 0.005, -0.004, -0.001]])


def test_ratio_interval_is_students_on_the_logs():
    found = ratio_ci([1.0, 1.21])
    half = 12.7062 * np.std(np.log([1.0, 1.21]), ddof=1) / math.sqrt(2)
    assert found.ratio == pytest.approx(1.1)
    assert np.log(found.ci) == pytest.approx([math.log(1.1) - half, math.log(1.1) + half], rel=1e-4)


@pytest.mark.parametrize("ratios", [[], [1.1], [1.1, 0.0], [1.1, -1.0], [1.1, math.nan]])
def test_ratio_interval_refuses_too_few_or_impossible_ratios(ratios):
    with pytest.raises(ValueError, match=r"ratio|value"):
        ratio_ci(ratios)


def test_confirmation_adds_the_launch_shift_that_one_launch_cannot_show():
    fresh = [0.10, 0.11, 0.09, 0.10]
    alone, honest = confirm([fresh]), confirm([fresh], QUIET)
    assert alone.ratio == honest.ratio == pytest.approx(math.exp(0.10))
    assert alone.ci == pytest.approx(ratio_ci(np.exp(fresh).tolist()).ci)
    assert honest.ci[0] < alone.ci[0] < alone.ci[1] < honest.ci[1]


def test_the_interval_of_fresh_launches_is_students_on_their_means_where_they_differ():
    fresh = [[0.10], [0.16], [0.04], [0.10]]
    alone = confirm(fresh)
    assert alone.ci == pytest.approx(ratio_ci([math.exp(x) for (x,) in fresh]).ci)
    assert confirm(fresh, QUIET).ci == alone.ci  # they show more than A/A did


def test_fresh_launches_that_agree_by_chance_are_no_surer_than_a_a_launches():
    found = confirm([[0.1], [0.1], [0.1], [0.1]], QUIET)
    pair, launch = QUIET.pair_sd_pct / 100, max(0.005, QUIET.launch_sd_pct / 100)
    half = 3.1824 * math.sqrt((pair**2 + launch**2) / 4)
    assert np.log(found.ci) == pytest.approx([0.1 - half, 0.1 + half], rel=1e-3)


def test_one_pair_confirms_nothing():
    with pytest.raises(ValueError, match="two pairs"):
        confirm([[0.1]])


SEEN = [[0.30, 0.31, 0.29, 0.30]]


@pytest.mark.parametrize(
    ("fresh", "said"),
    [
        ([[0.30], [0.29], [0.31], [0.30]], (GateResult.PASS, "gain_confirmed")),
        ([[0.30], [0.28], [0.33], [0.27]], (GateResult.PASS, "gain_confirmed")),
        ([[0.30], [0.31], [0.02], [0.30]], (GateResult.INCONCLUSIVE, "launches_differ")),
        ([[0.30], [0.31], [-0.90], [0.10]], (GateResult.FAIL, "gain_not_confirmed")),
        (
            [[0.80], [0.90], [0.85], [0.88]],
            (GateResult.PASS, "gain_confirmed"),
        ),  # better is no fault
    ],
)
def test_no_fresh_start_may_lie_far_below_what_was_seen(fresh, said):
    assert confirmed(fresh, SEEN, QUIET) == said


@pytest.mark.parametrize(
    ("fresh", "said"),
    [
        ([[2.06], [1.99]], "gain_confirmed"),  # 7.9 and 7.3 times, beside 8.2
        ([[2.06], [1.00]], "launches_differ"),  # 2.7 times is another kind of start
    ],
)
def test_starts_of_a_large_gain_may_differ_by_more(fresh, said):
    seen = [[2.10, 2.11, 2.09, 2.10]]
    assert confirmed(fresh, seen, QUIET)[1] == said


def test_two_estimates_are_compared_by_the_interval_of_their_ratio():
    found = ratio_between(Estimate(2.0, (1.8, 2.2), 4), Estimate(1.0, (0.9, 1.1), 6))
    assert found.ratio == pytest.approx(0.5)
    assert found.ci[0] < 0.5 < found.ci[1] < 1
    assert found.n == 4


def test_quantile_ratio_finds_a_known_ratio():
    rng = np.random.default_rng(3)
    a, b = rng.lognormal(0, 0.4, 4000) * 2, rng.lognormal(0, 0.4, 4000)
    found = bootstrap_quantile_ratio(a, b, 0.99, 50)
    assert found is not None
    assert found.ci[0] < 2.0 < found.ci[1]
    assert found.ratio == pytest.approx(np.quantile(a, 0.99) / np.quantile(b, 0.99))
    assert found == bootstrap_quantile_ratio(a, b, 0.99, 50)  # seeded


def test_blocks_widen_the_interval_of_correlated_latencies():
    rng = np.random.default_rng(4)
    arms = [np.repeat(rng.lognormal(0, 0.5, 100), 40) for _ in range(2)]
    widths = []
    for block in (1, 80):
        found = bootstrap_quantile_ratio(*arms, 0.95, block)
        assert found is not None
        widths.append(math.log(found.ci[1] / found.ci[0]))
    assert widths[1] > 1.5 * widths[0]


@pytest.mark.parametrize(("q", "n", "printed"), [(0.99, 1000, True), (0.99, 999, False)])
def test_a_quantile_needs_ten_values_beyond_it(q, n, printed):
    latency = np.linspace(1, 2, n)
    found = bootstrap_quantile_ratio(latency, latency, q, 10, resamples=10)
    assert (found is not None) == printed


def test_difference_of_shares_agrees_with_newcombes_worked_example():
    # 56/70 against 48/80: Newcombe 1998, table II, method 10
    difference, ci = difference_of_shares_ci(48, 80, 56, 70)
    assert difference == pytest.approx(0.2)
    assert ci == pytest.approx((0.0524, 0.3339), abs=1e-4)


@pytest.mark.parametrize(
    ("counts", "result", "reason"),
    [
        ((10, 2000, 10, 2000), GateResult.PASS, "slo_not_worse"),
        ((0, 1000, 0, 1000), GateResult.PASS, "slo_not_worse"),
        ((10, 2000, 100, 2000), GateResult.FAIL, "slo_worse"),
        ((10, 2000, 30, 2000), GateResult.INCONCLUSIVE, "slo_undecided"),
        ((0, 999, 0, 5000), GateResult.INCONCLUSIVE, "too_few_requests"),
    ],
)
def test_commit_gate_judges_by_interval(counts, result, reason):
    difference, ci, *answer = commit_gate(*counts)
    assert answer == [result, reason]
    assert (difference, ci) == difference_of_shares_ci(*counts)


def test_shares_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="no more over the SLO than requests"):
        difference_of_shares_ci(5, 4, 0, 4)
