"""How often the rule for a gain is wrong: simulated runs, seeded and vectorised. Pure.

A run calibrates its noise on A/A launches, then judges its candidates one after the other against
that one noise floor. Three simpler rules see the same draws, for comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import stats

from layers.measure.stats import (
    UNMEASURED_FLOOR_PCT,
    LookPlan,
    clears,
    could_win,
    launch_floor,
    launch_variance,
)

Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
AtLook: TypeAlias = Callable[[int], tuple[Bools, Bools]]  # launches -> accepted, worth going on


@dataclass(frozen=True, slots=True)
class World:
    """What is true in a simulation; standard deviations are of log ratios."""

    ratio: float  # true throughput ratio of every candidate
    pair_sd: float
    launch_sd: float
    noise_launches: int  # A/A launches that the run calibrates on


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a rule did, over all simulated runs."""

    runs: int
    per_run: float  # share of runs that accepted at least one candidate
    per_candidate: float  # share of candidates accepted
    first_look: float  # share of candidates accepted at the first look
    launches: float  # mean launches spent on a candidate
    confirmed_per_run: float  # per_run, counting a candidate only if fresh pairs are positive too


@dataclass(frozen=True, slots=True)
class _Draws:
    """Sufficient statistics of simulated pairs; leading axes are run, candidate, launch."""

    noise_means: Floats  # [runs, 1, A/A launches]
    noise_squares: Floats  # [runs, 1], sum of squares within A/A launches
    means: Floats  # [runs, candidates, launches]
    squares: Floats  # [runs, candidates, launches], sum of squares within
    fresh: Floats  # [runs, candidates], mean of the fresh pairs of one more launch
    pairs: int  # per launch


def _draw(world: World, plan: LookPlan, runs: int, seed: int) -> _Draws:
    """Draw launches of pairs under the model of `layers.measure.stats`."""
    rng = np.random.default_rng(seed)
    m = plan.pairs_per_launch
    effect = float(np.log(world.ratio))

    def launches(count: tuple[int, ...], shift: float) -> tuple[Floats, Floats]:
        pairs = rng.normal(shift, world.launch_sd, (*count, 1)) + rng.normal(
            0, world.pair_sd, (*count, m)
        )
        return pairs.mean(-1), pairs.var(-1) * m

    noise_means, noise_squares = launches((runs, 1, world.noise_launches), 0.0)
    means, squares = launches((runs, plan.candidates, plan.looks[-1]), effect)
    fresh, _ = launches((runs, plan.candidates), effect)
    return _Draws(noise_means, noise_squares.sum(-1), means, squares, fresh, m)


def _our_rule(draws: _Draws, plan: LookPlan) -> AtLook:
    """Return the rule of `stats.look` over arrays."""
    noise_launches = draws.noise_means.shape[-1]
    noise_freedom = noise_launches * (draws.pairs - 1)
    noise_within = draws.noise_squares / noise_freedom
    floor = launch_floor(draws.noise_means, noise_within, 1 / draws.pairs, noise_freedom)

    def at_look(k: int) -> tuple[Bools, Bools]:
        rule, means = plan.rule(k, noise_launches), draws.means[..., :k]
        estimate = means.mean(-1)
        freedom = k * (draws.pairs - 1)
        within = draws.squares[..., :k].sum(-1) / freedom
        pooled = (draws.noise_squares + within * freedom) / (noise_freedom + freedom)
        spread = (draws.noise_means**2).sum(-1) + means.var(-1) * k
        unit = launch_variance(
            spread / (noise_launches + k - 1), np.maximum(pooled, within), 1 / draws.pairs
        )
        se = np.sqrt(unit / k)
        return clears(estimate, se, floor, rule), could_win(estimate, se, floor, rule)

    return at_look


def _published_rule(draws: _Draws, plan: LookPlan, floor: Floats) -> AtLook:
    """Return the method's rule as written: above floor/sqrt(k), re-measured down to the last k."""

    def at_look(k: int) -> tuple[Bools, Bools]:
        gain = -np.expm1(-draws.means[..., :k].mean(-1))
        return gain > floor / np.sqrt(k), gain > floor / np.sqrt(plan.looks[-1])

    return at_look


def _fixed_rule(draws: _Draws, threshold: float) -> AtLook:
    """Return the rule of a fixed threshold on one measurement."""

    def at_look(k: int) -> tuple[Bools, Bools]:
        gain = -np.expm1(-draws.means[..., :k].mean(-1))
        return gain > threshold, np.zeros(gain.shape, dtype=np.bool_)

    return at_look


def _outcome(draws: _Draws, plan: LookPlan, at_look: AtLook) -> Outcome:
    """Send every candidate through the looks until it is accepted or given up."""
    alive = np.ones(draws.fresh.shape, dtype=np.bool_)
    accepted = np.zeros_like(alive)
    first_look, launches, before = 0.0, 0.0, 0
    for k in plan.looks:
        launches += float(alive.mean()) * (k - before)
        wins, goes_on = at_look(k)
        accepted |= alive & wins
        alive &= goes_on & ~wins
        first_look, before = (float(accepted.mean()) if not before else first_look), k
    return Outcome(
        runs=len(accepted),
        per_run=float(accepted.any(-1).mean()),
        per_candidate=float(accepted.mean()),
        first_look=first_look,
        launches=launches,
        confirmed_per_run=float((accepted & (draws.fresh > 0)).any(-1).mean()),
    )


def simulate(plan: LookPlan, world: World, runs: int, seed: int) -> Outcome:
    """Return what the rule of `layers.measure.stats` does in `runs` simulated runs."""
    draws = _draw(world, plan, runs, seed)
    return _outcome(draws, plan, _our_rule(draws, plan))


def simulate_rules(plan: LookPlan, world: World, runs: int, seed: int) -> dict[str, Outcome]:
    """Return the outcome of our rule and of three simpler ones on the same draws.

    "published, 6 %" and "published, measured" take the method as written, its floor either 6 % or
    1.96 standard errors of this run's A/A pairs; "fixed 5 %" is one measurement and a threshold.
    """
    draws = _draw(world, plan, runs, seed)
    freedom = world.noise_launches * (draws.pairs - 1)
    se = np.sqrt(draws.noise_squares / freedom / draws.pairs)
    six = np.full(se.shape, UNMEASURED_FLOOR_PCT / 100)
    rules = {
        "fvec": _our_rule(draws, plan),
        "published, 6 %": _published_rule(draws, plan, six),
        "published, measured": _published_rule(draws, plan, stats.norm.isf(0.025) * se),
        "fixed 5 %": _fixed_rule(draws, 0.05),
    }
    return {name: _outcome(draws, plan, rule) for name, rule in rules.items()}
