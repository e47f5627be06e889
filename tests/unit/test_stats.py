"""Boundaries, noise floor, looks, intervals and the commit gate; the simulated error rates."""

import json
import math
import sys

import numpy as np
import pytest

from layers.evidence import Look, NoiseFloor, Pair
from layers.measure.simulate import World, simulate, simulate_rules
from layers.measure.stats import (
    LookPlan,
    by_launch,
    look,
    noise_floor,
    obrien_fleming,
    resolvable,
    unmeasured_noise,
)

PLAN = LookPlan(candidates=10)
QUIET = noise_floor([[0.004, -0.006, 0.001, 0.003], [-0.002, 0.005, -0.004, -0.001]])


def launches(effect: float, k: int, spread: float = 0.006) -> list[list[float]]:
    """Return k launches of four pairs around an effect, the same spread in each."""
    return [[effect + spread * x for x in (-1.0, 0.5, 1.0, -0.5)] for _ in range(k)]


def show(line):
    sys.stdout.write(f"{line}\n")


# --- boundaries


@pytest.mark.parametrize(
    ("alpha", "looks", "published"),
    [
        (0.025, 4, [4.049, 2.863, 2.337, 2.024]),
        (0.025, 5, [4.562, 3.226, 2.634, 2.281, 2.040]),
        (0.025, 2, [2.797, 1.977]),
        (0.005, 3, [4.494, 3.178, 2.595]),
        (0.025, 1, [1.960]),
    ],
)
def test_obrien_fleming_agrees_with_published_tables(alpha, looks, published):
    fractions = tuple((i + 1) / looks for i in range(looks))
    assert obrien_fleming(alpha, fractions) == pytest.approx(published, abs=1e-3)


def test_obrien_fleming_is_crossed_as_often_as_promised():
    fractions = (1 / 8, 2 / 8, 4 / 8, 1.0)
    rng = np.random.default_rng(11)
    steps = rng.normal(0, np.sqrt(np.diff((0.0, *fractions))), (1_000_000, 4))
    z = steps.cumsum(1) / np.sqrt(fractions)
    crossed = (z >= obrien_fleming(0.025, fractions)).any(1).mean()
    assert crossed == pytest.approx(0.025, abs=4 * math.sqrt(0.025 * 0.975 / 1e6))


@pytest.mark.parametrize(
    ("alpha", "fractions"),
    [(0.0, (1.0,)), (0.5, (1.0,)), (0.05, ()), (0.05, (0.5, 0.9)), (0.05, (0.5, 0.5, 1.0))],
)
def test_obrien_fleming_refuses_impossible_plans(alpha, fractions):
    with pytest.raises(ValueError, match="fractions increase to 1"):
        obrien_fleming(alpha, fractions)


def test_the_boundary_is_never_below_obrien_fleming_and_falls_as_launches_are_added():
    known = obrien_fleming(0.0005, PLAN.fractions)
    ours = [PLAN.boundary(k, 2) for k in PLAN.looks]
    assert all(a >= b for a, b in zip(ours, known, strict=True))
    assert ours == sorted(ours, reverse=True)
    assert ours[0] == known[0]  # 9.3: the first look is for large gains


# --- noise floor


def test_noise_floor_of_one_launch_is_student_times_the_error_of_its_mean():
    pairs = [0.01, -0.01, 0.03, -0.03]
    floor = noise_floor([pairs])
    sd = np.std(pairs, ddof=1)
    half_width = 3.182446 * math.sqrt(0.005**2 + sd**2 / 4)
    assert floor.model_dump() == {
        "floor_pct": pytest.approx(100 * half_width, rel=1e-6),
        "pair_sd_pct": pytest.approx(100 * sd),
        "launch_sd_pct": None,
        "pairs": 4,
        "launches": 1,
        "median_pct": pytest.approx(0.0),
        "launch_differences_pct": [pytest.approx(0.0)],
    }


def test_launch_shift_shows_once_there_are_two_launches():
    steady = [0.001, -0.001, 0.001, -0.001]
    floor = noise_floor([[0.02 + x for x in steady], [-0.02 + x for x in steady]])
    assert floor.launch_sd_pct == pytest.approx(2.0, rel=0.01)
    assert floor.pair_sd_pct == pytest.approx(0.1155, rel=0.01)
    assert floor.floor_pct == pytest.approx(100 * 2.446912 * 0.02, rel=0.01)


def test_an_a_a_difference_beyond_the_half_width_becomes_the_floor():
    calm = [[0.0001, -0.0001, 0.0001, -0.0001] for _ in range(7)]
    floor = noise_floor([*calm, [0.1001, 0.0999, 0.1001, 0.0999]])
    assert floor.floor_pct == pytest.approx(10.0)


def test_a_larger_earlier_floor_rules():
    earlier = QUIET.model_copy(update={"floor_pct": 4.5})
    assert noise_floor([[0.001, -0.001, 0.0, 0.001]], earlier).floor_pct == 4.5
    unmeasured = noise_floor([[0.001, -0.001, 0.0, 0.001]], unmeasured_noise())
    assert unmeasured.floor_pct < 2  # six percent stands only until it is measured


def test_noise_is_six_percent_until_it_is_measured():
    noise = unmeasured_noise()
    assert (noise.floor_pct, noise.pairs, noise.launches) == (6.0, 0, 0)
    assert look(launches(math.log(1.05), 1), noise, PLAN).decision == "continue"
    assert look(launches(math.log(2.0), 1), noise, PLAN).decision == "accept"


@pytest.mark.parametrize(
    "pairs", [[], [[]], [[0.1], [0.2]], [[0.1, math.nan]], [[0.1, math.inf], [0.0, 0.1]]]
)
def test_noise_floor_refuses_what_has_no_spread_or_is_not_finite(pairs):
    with pytest.raises(ValueError, match="pair"):
        noise_floor(pairs)


@pytest.mark.parametrize("noise_launches", [1, 2])
@pytest.mark.parametrize(("pair_sd", "launch_sd"), [(0.01, 0.0), (0.01, 0.01), (0.04, 0.005)])
def test_the_floor_covers_a_new_a_a_difference(noise_launches, pair_sd, launch_sd):
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(1000):
        shift = rng.normal(0, launch_sd, (noise_launches + 1, 1))
        pairs = shift + rng.normal(0, pair_sd, (noise_launches + 1, 4))
        covered += abs(pairs[-1].mean()) * 100 < noise_floor(pairs[:-1].tolist()).floor_pct
    assert covered >= 920


# --- looks


def test_a_large_gain_is_accepted_at_the_first_look():
    found = look(launches(math.log(1.15), 1), QUIET, PLAN)
    assert found.model_dump() == {
        "k": 1,
        "pairs": 4,
        "estimate": pytest.approx(1.15),
        "ci": found.ci,
        "gain": pytest.approx(1 - 1 / 1.15),
        "floor": QUIET.floor_pct / 100,
        "z": found.z,
        "boundary": found.boundary,
        "decision": "accept",
        "reason": "gain_above_noise",
    }
    assert found.z > found.boundary > PLAN.boundary(1, 2)  # more is asked than at the last look
    assert found.ci[0] < found.estimate < found.ci[1]


@pytest.mark.parametrize(
    ("ratio", "k", "decision", "reason"),
    [
        (1.02, 1, "continue", "in_remeasuring_band"),
        (1.02, 4, "continue", "in_remeasuring_band"),
        (1.02, 8, "accept", "gain_above_noise"),
        (1.01, 8, "inconclusive", "last_look_reached"),
        (1.005, 8, "reject", "boundary_out_of_reach"),
        (1.0, 1, "continue", "in_remeasuring_band"),
        (1.0, 4, "reject", "below_noise_floor"),
        (1.0, 8, "reject", "below_noise_floor"),
        (0.99, 1, "reject", "below_noise_floor"),
        (0.97, 1, "reject", "slower"),
        (0.90, 8, "reject", "slower"),
    ],
)
def test_looks_follow_the_remeasuring_band(ratio, k, decision, reason):
    found = look(launches(math.log(ratio), k, spread=0.012), QUIET, PLAN)
    assert (found.decision, found.reason) == (decision, reason)


def test_a_gain_below_the_floor_is_not_accepted_however_sure_it_is():
    noise = QUIET.model_copy(update={"floor_pct": 12.0})
    found = look(launches(math.log(1.10), 1, spread=0.001), noise, PLAN)
    assert found.z > found.boundary
    assert found.gain < found.floor
    assert found.decision == "continue"


def test_noisier_pairs_of_the_candidate_count_in_full_and_calmer_ones_only_pooled():
    calm, wild = (look(launches(0.05, 2, spread), QUIET, PLAN).z for spread in (0.0, 0.04))
    pooled_sd = QUIET.pair_sd_pct / 100 / math.sqrt(2)  # A/A and calm pairs: six degrees each
    assert calm == pytest.approx(0.05 / math.sqrt((0.005**2 + pooled_sd**2 / 4) / 2))
    own_sd = 0.04 * math.sqrt(2.5 / 3)
    assert wild == pytest.approx(0.05 / math.sqrt((0.005**2 + own_sd**2 / 4) / 2))


def test_launches_that_disagree_raise_the_error():
    agreeing = look(launches(0.05, 2), QUIET, PLAN)
    disagreeing = look([*launches(0.0, 1), *launches(0.10, 1)], QUIET, PLAN)
    assert disagreeing.estimate == pytest.approx(agreeing.estimate)
    assert disagreeing.z < agreeing.z / 2


def test_a_look_that_was_not_planned_is_refused():
    with pytest.raises(ValueError, match="no look is planned after 3 launches"):
        look(launches(0.05, 3), QUIET, PLAN)


def test_more_candidates_raise_every_boundary():
    few, many = LookPlan(candidates=1), LookPlan(candidates=100)
    assert all(few.boundary(k, 2) < many.boundary(k, 2) for k in few.looks)


def test_pairs_are_grouped_by_launch_as_log_ratios():
    pairs = [
        Pair(launch=2, pair=1, throughput_ratio=math.e, cpu_ratio=1.0),
        Pair(launch=1, pair=1, throughput_ratio=1.0, cpu_ratio=math.e),
        Pair(launch=2, pair=2, throughput_ratio=1.0, cpu_ratio=1.0),
    ]
    assert by_launch(pairs) == [[0.0], [1.0, 0.0]]
    assert by_launch(pairs, cpu=True) == [[1.0], [0.0, 0.0]]


def test_resolvable_gains_shrink_as_launches_are_added():
    rows = resolvable(QUIET, PLAN, seconds_per_launch=30)
    assert [(k, minutes) for _, k, minutes in rows] == [(1, 0.5), (2, 1.0), (4, 2.0), (8, 4.0)]
    gains = [gain for gain, _, _ in rows]
    assert gains == sorted(gains, reverse=True)
    assert 0.005 < gains[-1] < 0.03


def test_a_resolvable_gain_is_found_nine_times_in_ten():
    noise = NoiseFloor(
        floor_pct=2.7,
        pair_sd_pct=2.0,
        launch_sd_pct=0.5,
        pairs=8,
        launches=2,
        launch_differences_pct=[1.1, -1.1],
    )
    gain, launches_needed, _ = resolvable(noise, PLAN, 60)[-1]
    found = simulate(PLAN, World(1 / (1 - gain), 0.02, 0.005, 2), 1000, seed=20)
    show(f"gain {gain:.2%} in {launches_needed} launches: accepted {found.per_candidate:.1%}")
    assert found.per_candidate == pytest.approx(0.9, abs=0.03)


def test_models_of_statistics_survive_json():
    found = look(launches(0.05, 1), QUIET, PLAN)
    assert Look.model_validate(json.loads(found.model_dump_json())) == found
    assert NoiseFloor.model_validate(json.loads(QUIET.model_dump_json())) == QUIET


# --- error rates; `pytest -s` shows the figures


WORLDS = [
    (pair_sd, launch_sd, noise_launches)
    for pair_sd in (0.01, 0.02, 0.04)
    for launch_sd in (0.005, 0.01)
    for noise_launches in (1, 2)
]


def test_false_accepts_per_run_stay_below_half_a_percent():
    runs = 2500
    show(f"runs with a false accept, 10 candidates without effect, {runs} runs")
    for pair_sd, launch_sd, noise_launches in WORLDS:
        world = World(1.0, pair_sd, launch_sd, noise_launches)
        found = simulate_rules(PLAN, world, runs, seed=17)
        rates = "  ".join(f"{name} {100 * o.per_run:.2f} %" for name, o in found.items())
        show(f"pair sd {pair_sd:.0%} launch sd {launch_sd:.1%} A/A x{noise_launches}:  {rates}")
        assert found["fvec"].per_run <= PLAN.alpha_run


def test_a_gain_of_three_percent_is_found_by_the_last_look():
    runs = 500
    show(f"true ratio 1.03, pair sd 2 %, launch sd 0.5 %, {runs} runs of 10 candidates")
    for noise_launches in (1, 2):
        found = simulate_rules(PLAN, World(1.03, 0.02, 0.005, noise_launches), runs, seed=18)
        power = "  ".join(f"{name} {100 * o.per_candidate:.1f} %" for name, o in found.items())
        show(
            f"accepted with A/A x{noise_launches}:  {power}  ({found['fvec'].launches:.1f} launches)"
        )
        assert found["fvec"].per_candidate >= 0.9


def test_a_large_gain_needs_four_pairs_when_the_noise_is_small():
    world = World(1 / 0.9, 0.006, 0.003, 2)
    found = simulate(PLAN, world, 500, seed=19)
    show(f"true gain 10 %, pair sd 0.6 %, launch sd 0.3 %: {found}")
    assert found.first_look >= 0.97
    assert found.launches <= 1.03


def test_the_simulated_rule_is_the_rule_of_look():
    rng = np.random.default_rng(23)
    accepted = 0
    for _ in range(200):
        noise = noise_floor(rng.normal(0, 0.01, (2, 4)).tolist())
        pairs = (math.log(1.06) + rng.normal(0, 0.01, (1, 4))).tolist()
        accepted += look(pairs, noise, PLAN).decision == "accept"
    expected = simulate(PLAN, World(1.06, 0.01, 0.0, 2), 2000, seed=24).first_look
    assert accepted / 200 == pytest.approx(expected, abs=4 * math.sqrt(0.25 / 200))
