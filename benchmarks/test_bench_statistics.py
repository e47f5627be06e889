"""The look at a gain: its cost, and how often its rule is wrong or finds a gain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from scipy import stats

from benchmarks.support import Show, once
from bot.render import numbers
from layers.evidence import Look
from layers.measure.simulate import Outcome, World, simulate_rules
from layers.measure.stats import LookPlan, look, noise_floor

PLAN = LookPlan(candidates=10)
SEED = 17
BATCHES, RUNS = 4, 10_000  # simulated runs of ten candidates each; batches bound the memory
POWER_RUNS = 10_000
NULL_WORLDS = tuple(
    World(1.0, pair_sd, launch_sd, noise_launches)
    for pair_sd in (0.01, 0.02, 0.04)
    for launch_sd in (0.005, 0.01)
    for noise_launches in (1, 2)
)
POWER_WORLD = World(1.0, pair_sd=0.02, launch_sd=0.005, noise_launches=2)
GAINS = (1.01, 1.02, 1.03, 1.05, 1.10)  # true throughput ratios
NOISE_HEAD = ("pair SD", "launch SD", "A/A launches")


@pytest.mark.parametrize("k", PLAN.looks)
def test_look(benchmark: BenchmarkFixture, k: int) -> None:
    """Time one look at k launches; boundaries are cached as they are in a run."""
    benchmark.group = "one look, by launches seen"
    rng = np.random.default_rng(SEED)
    noise = noise_floor(rng.normal(0, 0.01, (2, 4)).tolist())
    launches = rng.normal(0.05, 0.01, (k, 4)).tolist()
    found: Look = benchmark(look, launches, noise, PLAN)
    if (found.k, found.pairs) != (k, 4 * k):
        pytest.fail(f"a look at {k} launches says {found}")


def false_accepts() -> list[dict[str, float]]:
    """Return the share of runs with a false accept, by rule, for each world."""
    found = []
    for world in NULL_WORLDS:
        batches = [simulate_rules(PLAN, world, RUNS, SEED + batch) for batch in range(BATCHES)]
        found.append({rule: sum(b[rule].per_run for b in batches) / BATCHES for rule in batches[0]})
    return found


def power() -> list[dict[str, Outcome]]:
    """Return what each rule does, for each true gain."""
    worlds = [replace(POWER_WORLD, ratio=ratio) for ratio in GAINS]
    return [simulate_rules(PLAN, world, POWER_RUNS, SEED) for world in worlds]


def _noise(world: World) -> list[str]:
    sds = (world.pair_sd, world.launch_sd)
    return [*(f"{numbers.setting(100 * sd)} %" for sd in sds), str(world.noise_launches)]


def _rate(share: float) -> str:
    """Return a share of all runs with its exact (Clopper-Pearson) 95 % interval, in percent."""
    runs = BATCHES * RUNS
    found = stats.binomtest(round(share * runs), runs).proportion_ci(0.95)
    return f"{100 * share:.2f} ({100 * found.low:.2f} to {100 * found.high:.2f})"


def test_false_accepts(benchmark: BenchmarkFixture, show: Show) -> None:
    """Simulate runs whose candidates change nothing, and show what each rule accepts."""
    found = once(benchmark, false_accepts)
    show(
        f"**False accepts**: percent of {BATCHES * RUNS:,} simulated runs that accept at least one "
        f"of {PLAN.candidates} candidates without effect, with its 95 % interval; the promise of "
        f"the first rule is {numbers.setting(100 * PLAN.alpha_run)} %.",
        [*NOISE_HEAD, *found[0]],
        [
            [*_noise(world), *map(_rate, shares.values())]
            for world, shares in zip(NULL_WORLDS, found, strict=True)
        ],
    )


def test_power(benchmark: BenchmarkFixture, show: Show) -> None:
    """Simulate runs whose candidates all gain, and show what each rule accepts."""
    found = once(benchmark, power)
    noise = ", ".join(map(" ".join, zip(NOISE_HEAD, _noise(POWER_WORLD), strict=True)))
    show(
        f"**Power**: percent of candidates accepted, {POWER_RUNS:,} simulated runs of "
        f"{PLAN.candidates}; {noise}. The last column is what the first rule spends.",
        ["true throughput ratio", *found[0], "launches a candidate"],
        [
            [
                numbers.times(ratio),
                *(f"{100 * rule.per_candidate:.2f}" for rule in rules.values()),
                numbers.number(next(iter(rules.values())).launches),
            ]
            for ratio, rules in zip(GAINS, found, strict=True)
        ],
    )
