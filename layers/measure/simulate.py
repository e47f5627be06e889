"""How often the rule for a gain is wrong: simulated runs, seeded and vectorised. Pure.

A run calibrates its noise on A/A launches, then judges its candidates one after the other against
that one noise floor. Simpler rules see the same draws, for comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import stats

from layers.measure.boundaries import LEAST_LAUNCH_SD, LookPlan
from layers.measure.intervals import at_most
from layers.measure.stats import (
    UNMEASURED_FLOOR_PCT,
    clears,
    could_win,
    launch_floor,
    of_one_kind,
    outlying_pairs,
    spread_of,
)
from layers.measure.worlds import World, kinds, paired, sequential, stalled

Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
AtLook: TypeAlias = Callable[[int], tuple[Bools, Bools]]  # launches -> accepted, worth going on

BATCH = 2500  # runs drawn at a time
CONFIRMING = 4  # fresh starts of one pair each, as of a served stack


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a rule did, over all runs. `confirmed`: fresh starts bore it out (`stats.confirmed`)."""

    runs: int
    false_runs: int  # runs that accepted at least one candidate; false where none has an effect
    per_candidate: float  # share of candidates accepted
    by_look: tuple[float, ...]  # share of candidates accepted by each look
    launches: float  # mean launches spent on a candidate
    confirmed_runs: int
    confirmed_per_candidate: float

    @property
    def per_run(self) -> float:
        """Share of runs that accepted at least one candidate."""
        return self.false_runs / self.runs

    @property
    def first_look(self) -> float:
        """Share of candidates accepted at the first look."""
        return self.by_look[0]

    @property
    def per_run_at_most(self) -> float:
        """Upper 95 % bound of `per_run`: one-sided, exact (Clopper and Pearson, Biometrika 26)."""
        return at_most(self.false_runs, self.runs)

    @property
    def confirmed_per_run(self) -> float:
        """Share of runs that accepted at least one candidate and confirmed it."""
        return self.confirmed_runs / self.runs

    @property
    def confirmed_at_most(self) -> float:
        """Upper 95 % bound of `confirmed_per_run`, as `per_run_at_most`."""
        return at_most(self.confirmed_runs, self.runs)


@dataclass(frozen=True, slots=True)
class Draws:
    """Log ratios of pairs, and what came of all A before all B; leading axes are run, candidate."""

    noise: Floats  # [runs, 1, A/A launches, pairs]
    pairs: Floats  # [runs, candidates, launches, pairs], that looks see
    fresh: Floats  # [runs, candidates, starts], one pair of each start that confirms
    sequential: Floats  # [runs, candidates, 2, blocks], log rates: all of A, then all of B

    @property
    def means(self) -> Floats:
        """Means of launches that looks see, [runs, candidates, launches]."""
        return np.asarray(self.pairs.mean(-1), dtype=np.float64)

    @classmethod
    def of(cls, noise: Floats, launches: Floats, sequential: Floats) -> Draws:
        """Return draws of which the last `CONFIRMING` launches are those that confirm."""
        looked, fresh = launches[..., :-CONFIRMING, :], launches[..., -CONFIRMING:, 0]
        return cls(noise, looked, fresh, sequential)


def draw(world: World, plan: LookPlan, runs: int, seed: int) -> Draws:
    """Draw runs in a world; every candidate of a run is judged against the same A/A launches."""
    rng = np.random.default_rng(seed)
    m, effect = plan.pairs_per_launch, float(np.log(world.ratio))
    noise = paired(world, rng, (runs, 1, world.noise_launches), m)
    launches = plan.looks[-1] + CONFIRMING
    pairs = paired(world, rng, (runs, plan.candidates, launches), m) + effect
    pairs += kinds(world, rng, (runs, plan.candidates, launches))[..., None]
    blocks = sequential(world, rng, (runs, plan.candidates), m)
    blocks[..., 1, :] += effect
    blocks[..., 1, :] = stalled(world, rng, blocks[..., 1, :])
    return Draws.of(noise, stalled(world, rng, pairs), blocks)


def screened(world: World, plan: LookPlan, runs: int, seed: int, *, both_ways: bool) -> Draws:
    """Return draws whose outlying pairs are replaced by one more pair of their launch.

    `both_ways` voids the pairs far below the others too, which `stats.outlying_pair` does not.
    """
    spare = draw(world, replace(plan, pairs_per_launch=plan.pairs_per_launch + 1), runs, seed)
    noise, pairs, again = spare.noise[..., :-1], spare.pairs[..., :-1], spare.pairs[..., -1:]
    pair_sd = np.sqrt(noise.var(-1, ddof=1).mean(-1))[..., None]
    void = outlying_pairs(pairs, pair_sd)
    if both_ways:
        void = np.maximum(void, outlying_pairs(-pairs, pair_sd))
    here = np.arange(plan.pairs_per_launch) == void[..., None]
    kept = np.where(here, again, pairs)
    return Draws(noise, kept, spare.fresh, spare.sequential[..., :-1])


def our_rule(draws: Draws, plan: LookPlan) -> AtLook:
    """Return the rule of `stats.look` over arrays."""
    count, m = draws.noise.shape[-2:]
    noise_means, noise_squares = draws.noise.mean(-1), draws.noise.var(-1).sum(-1) * m
    noise_freedom = count * (m - 1)
    noise_within = noise_squares / noise_freedom
    floor = launch_floor(noise_means, noise_within, 1 / m, noise_freedom)

    def at_look(k: int) -> tuple[Bools, Bools]:
        rule, means = plan.rule(k, count), draws.means[..., :k]
        estimate = means.mean(-1)
        squares = draws.pairs[..., :k, :].var(-1).sum(-1) * m
        freedom = k * (m - 1)
        pooled = (noise_squares + squares) / (noise_freedom + freedom)
        between = ((noise_means**2).sum(-1) + means.var(-1) * k) / (count + k - 1)
        within = np.maximum(pooled, squares / freedom)
        spread = spread_of(noise_means, noise_within, between, within, 1 / m)
        return clears(estimate, spread, floor, rule), could_win(estimate, spread, floor, rule)

    return at_look


def published_rule(draws: Draws, plan: LookPlan, floor: Floats) -> AtLook:
    """Return the method's rule as written: above floor/sqrt(k), re-measured down to the last k."""

    def at_look(k: int) -> tuple[Bools, Bools]:
        gain = -np.expm1(-draws.means[..., :k].mean(-1))
        return gain > floor / np.sqrt(k), gain > floor / np.sqrt(plan.looks[-1])

    return at_look


def fixed_rule(draws: Draws, threshold: float) -> AtLook:
    """Return the rule of a fixed threshold on one measurement."""

    def at_look(k: int) -> tuple[Bools, Bools]:
        gain = -np.expm1(-draws.means[..., :k].mean(-1))
        return gain > threshold, np.zeros(gain.shape, dtype=np.bool_)

    return at_look


def sequential_rule(draws: Draws) -> AtLook:
    """Return the comparison of one launch of A with a later one of B: Welch's t at 5 %.

    The usual benchmark: it stops after one measurement and takes blocks for independent.
    """

    def at_look(_: int) -> tuple[Bools, Bools]:
        blocks = draws.sequential
        n = blocks.shape[-1]
        squares = blocks.var(-1, ddof=1) / n
        error = np.maximum(squares.sum(-1), 1e-12)  # ties leave no variance
        freedom = error**2 * (n - 1) / np.maximum((squares**2).sum(-1), 1e-30)
        freedom = np.clip(freedom, n - 1, 2 * (n - 1))
        gain = blocks[..., 1, :].mean(-1) - blocks[..., 0, :].mean(-1)
        wins = gain > stats.t.isf(0.025, freedom) * np.sqrt(error)
        return wins, np.zeros(gain.shape, dtype=np.bool_)

    return at_look


def rules(draws: Draws, plan: LookPlan) -> dict[str, AtLook]:
    """Return our rule and the simpler ones over the same draws.

    "published, 6 %" and "published, measured" take the method as written, its floor either 6 % or
    1.96 standard errors of this run's A/A pairs; "fixed 5 %" is one measurement and a threshold;
    "sequential" measures all of A before all of B.
    """
    count, m = draws.noise.shape[-2:]
    se = np.sqrt(draws.noise.var(-1).sum(-1) * m / (count * (m - 1)) / m)
    six = np.full(se.shape, UNMEASURED_FLOOR_PCT / 100)
    return {
        "fvec": our_rule(draws, plan),
        "published, 6 %": published_rule(draws, plan, six),
        "published, measured": published_rule(draws, plan, stats.norm.isf(0.025) * se),
        "fixed 5 %": fixed_rule(draws, 0.05),
        "sequential": sequential_rule(draws),
    }


def outcome(draws: Draws, plan: LookPlan, at_look: AtLook) -> Outcome:
    """Send every candidate through the looks until it is accepted or given up."""
    alive = np.ones(draws.fresh.shape[:-1], dtype=np.bool_)
    accepted, confirmed = np.zeros_like(alive), np.zeros_like(alive)
    by_look, launches, before = [], 0.0, 0
    for k in plan.looks:
        launches += float(alive.mean()) * (k - before)
        wins, goes_on = at_look(k)
        accepted |= alive & wins
        confirmed |= alive & wins & _borne_out(draws, k)
        alive &= goes_on & ~wins
        by_look.append(float(accepted.mean()))
        before = k
    return Outcome(
        runs=len(accepted),
        false_runs=int(accepted.any(-1).sum()),
        per_candidate=float(accepted.mean()),
        by_look=tuple(by_look),
        launches=launches,
        confirmed_runs=int(confirmed.any(-1).sum()),
        confirmed_per_candidate=float(confirmed.mean()),
    )


def _borne_out(draws: Draws, k: int) -> Bools:
    """Return `stats.confirmed` over arrays: a gain on average, and no fresh start of another kind."""
    m = draws.noise.shape[-1]
    noise_within = draws.noise.var(-1, ddof=1).mean(-1)
    noise_between = (draws.noise.mean(-1) ** 2).mean(-1) - noise_within / m
    within = np.maximum(noise_within, draws.pairs[..., :k, :].var(-1, ddof=1).mean(-1))
    between = np.maximum(LEAST_LAUNCH_SD**2, noise_between)
    variance = within * (1 + 1 / (k * m)) + between * (1 + 1 / k)
    agree = of_one_kind(draws.means[..., :k].mean(-1), draws.fresh, variance)
    return np.asarray((draws.fresh.mean(-1) > 0) & agree, dtype=np.bool_)


def simulate(plan: LookPlan, world: World, runs: int, seed: int) -> Outcome:
    """Return what the rule of `layers.measure.stats` does in `runs` simulated runs."""
    batches = _batches(plan, world, runs, seed)
    return total([outcome(draws, plan, our_rule(draws, plan)) for draws in batches])


def simulate_rules(plan: LookPlan, world: World, runs: int, seed: int) -> dict[str, Outcome]:
    """Return the outcome of each of `rules` on the same draws."""
    parts = [
        {name: outcome(draws, plan, rule) for name, rule in rules(draws, plan).items()}
        for draws in _batches(plan, world, runs, seed)
    ]
    return {name: total([part[name] for part in parts]) for name in parts[0]}


def _batches(plan: LookPlan, world: World, runs: int, seed: int) -> Iterator[Draws]:
    """Draw `runs` runs, few at a time: bounded memory."""
    for start in range(0, runs, BATCH):
        yield draw(world, plan, min(BATCH, runs - start), seed + start)


def total(parts: Sequence[Outcome]) -> Outcome:
    """Return the outcome of all runs of the parts together."""
    runs = sum(part.runs for part in parts)

    def mean(values: Sequence[float]) -> float:
        weights = [part.runs for part in parts]
        return float(np.average(values, weights=weights))

    return Outcome(
        runs=runs,
        false_runs=sum(part.false_runs for part in parts),
        per_candidate=mean([part.per_candidate for part in parts]),
        by_look=tuple(mean(look) for look in zip(*(p.by_look for p in parts), strict=True)),
        launches=mean([part.launches for part in parts]),
        confirmed_runs=sum(part.confirmed_runs for part in parts),
        confirmed_per_candidate=mean([part.confirmed_per_candidate for part in parts]),
    )
