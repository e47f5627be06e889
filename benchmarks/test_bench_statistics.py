"""The look at a gain: its cost, and how often its rule is wrong or finds a gain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.support import Show, once
from bot.render import numbers
from layers.evidence import Look
from layers.measure.boundaries import LookPlan
from layers.measure.intervals import at_most
from layers.measure.recordings import Recording, read
from layers.measure.resample import pool_of, resample
from layers.measure.simulate import Outcome, our_rule, outcome, screened, simulate_rules
from layers.measure.stats import look, noise_floor
from layers.measure.worlds import WITHOUT_EFFECT, World

PLAN = LookPlan(candidates=10)
SEED = 17
RUNS = 20_000  # simulated or drawn runs of ten candidates each
POWER_RUNS = 10_000
USUAL = World(1.0, pair_sd=0.02, launch_sd=0.005, noise_launches=2)
QUIET = replace(USUAL, pair_sd=0.006)
GAINS = (1.01, 1.02, 1.03, 1.05, 1.10)  # true throughput ratios
STALLS = (0.02, 0.05, 0.10, 0.15)  # share of blocks in which a candidate stalls
RECORDED = Path(__file__).resolve().parents[1] / "tests" / "data" / "recorded" / "ads_noop.jsonl"


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


def _bounded(share: float, bound: float) -> str:
    """Return a share with its upper bound, in percent."""
    return f"{100 * share:.2f} (below {100 * bound:.2f})"


def _false(rules: Mapping[str, Outcome]) -> list[str]:
    """Return what each rule accepts in a run, and last what our verdict does."""
    ours = rules["fvec"]
    verdict = _bounded(ours.confirmed_per_run, ours.confirmed_at_most)
    return [*(_bounded(o.per_run, o.per_run_at_most) for o in rules.values()), verdict]


def _share(share: float) -> str:
    return f"{100 * share:.1f}"


def false_accepts() -> dict[str, dict[str, Outcome]]:
    """Return what each rule does in each world without effect."""
    return {name: simulate_rules(PLAN, world, RUNS, SEED) for name, world in WITHOUT_EFFECT.items()}


@pytest.mark.timeout(1800)  # a minute of CPU time
def test_false_accepts(benchmark: BenchmarkFixture, show: Show) -> None:
    """Simulate runs whose candidates change nothing, and show what each rule accepts."""
    found = once(benchmark, false_accepts)
    rules = next(iter(found.values()))
    show(
        f"**False accepts**: percent of {RUNS:,} simulated runs that accept at least one of "
        f"{PLAN.candidates} candidates without effect, with the upper 95 % bound. The last column "
        "asks for positive fresh pairs too, as a verdict does. Pairs vary by 2 %, launches by "
        "0.5 %, two A/A launches, where nothing else is said.",
        ["machine", *rules, "fvec, verdict"],
        [[name, *_false(outcomes)] for name, outcomes in found.items()],
    )


def power() -> list[tuple[int, float, dict[str, Outcome]]]:
    """Return what each rule does, for each number of A/A launches and true gain."""
    return [
        (
            count,
            ratio,
            simulate_rules(
                PLAN, replace(USUAL, ratio=ratio, noise_launches=count), POWER_RUNS, SEED
            ),
        )
        for count in (1, 2)
        for ratio in GAINS
    ]


def test_power(benchmark: BenchmarkFixture, show: Show) -> None:
    """Simulate runs whose candidates all gain, and show what each rule accepts."""
    found = once(benchmark, power)
    show(
        f"**Power**: percent of candidates accepted, {POWER_RUNS:,} simulated runs of "
        f"{PLAN.candidates}; pairs vary by 2 %, launches by 0.5 %.",
        [
            "A/A launches",
            "true throughput ratio",
            *found[0][2],
            "fvec, verdict",
            "launches a candidate",
        ],
        [
            [
                str(count),
                numbers.times(ratio),
                *(_share(rule.per_candidate) for rule in rules.values()),
                _share(rules["fvec"].confirmed_per_candidate),
                numbers.number(rules["fvec"].launches),
            ]
            for count, ratio, rules in found
        ],
    )


def stalling() -> list[tuple[float, list[float]]]:
    """Return the share accepted of candidates that stall: nothing void, upwards, both ways."""
    found = []
    for stalls in STALLS:
        # What it gains between its stalls is what they cost: nothing on average.
        world = replace(QUIET, ratio=float(np.exp(0.2 * stalls)), stalls=stalls)
        kept = simulate_rules(PLAN, world, 2000, SEED)["fvec"].per_candidate
        void = [screened(world, PLAN, 2000, SEED, both_ways=both) for both in (False, True)]
        rates = [outcome(d, PLAN, our_rule(d, PLAN)).per_candidate for d in void]
        found.append((stalls, [kept, *rates]))
    return found


def test_stalls(benchmark: BenchmarkFixture, show: Show) -> None:
    """Simulate candidates that hide stalls, and show why a pair far below the others counts."""
    found = once(benchmark, stalling)
    show(
        "**Stalls of the candidate's own**: percent of candidates accepted that gain nothing on "
        "average, as they stall by 20 % in some of their blocks; 20,000 candidates, pairs 0.6 %.",
        ["blocks that stall", "no pair void", "void upwards (as built)", "void both ways"],
        [[f"{stalls:.0%}", *map(_share, rates)] for stalls, rates in found],
    )


def drawn(recorded: list[Recording]) -> dict[str, dict[str, Outcome]]:
    """Return what each rule does in runs drawn from the recorded launches."""
    pool = pool_of(recorded, PLAN.pairs_per_launch)
    return {
        "no effect": resample(pool, PLAN, RUNS, SEED),
        "no effect, arms exchanged": resample(pool, PLAN, RUNS, SEED, symmetric=True),
        "+3 % planted": resample(pool, PLAN, POWER_RUNS, SEED, ratio=1.03),
    }


def test_recorded(benchmark: BenchmarkFixture, show: Show) -> None:
    """Draw runs from recorded launches, and show what each rule accepts."""
    if not RECORDED.exists():
        pytest.skip("nothing is recorded yet: make record-noise")
    recorded = read(RECORDED)
    found = once(benchmark, drawn, recorded)
    pool = pool_of(recorded, PLAN.pairs_per_launch)
    accepted = sum(one.verdict == "accepted" for one in recorded)
    sds = (pool.log_ratios.std(1, ddof=1).mean(), pool.log_ratios.mean(1).std(ddof=1))
    show(
        f"**Recorded on the example**: {accepted} of {len(recorded)} no-op patches accepted, below "
        f"{100 * at_most(accepted, len(recorded)):.1f} % (95 %). {len(pool)} launches: pairs vary by "
        f"{100 * sds[0]:.2f} %, means of launches by {100 * sds[1]:.2f} %, and differ by "
        f"{100 * pool.log_ratios.mean():+.2f} % on average. {RUNS:,} runs of {PLAN.candidates} "
        "drawn from them, percent that accept at least one; of the planted gain, percent of "
        f"{POWER_RUNS * PLAN.candidates:,} candidates accepted.",
        ["runs of", *found["no effect"], "fvec, verdict"],
        [
            ["no effect", *_false(found["no effect"])],
            ["no effect, arms exchanged", *_false(found["no effect, arms exchanged"])],
            [
                "+3 % planted",
                *(_share(rule.per_candidate) for rule in found["+3 % planted"].values()),
                _share(found["+3 % planted"]["fvec"].confirmed_per_candidate),
            ],
        ],
    )
    by_look = found["+3 % planted"]["fvec"].by_look
    show(
        "**The planted gain by look**: percent accepted by then.",
        ["1 launch", *(f"{k} launches" for k in PLAN.looks[1:])],
        [[_share(share) for share in by_look]],
    )
