"""Runs of candidates without effect, drawn from recorded launches. Pure, seeded, vectorised.

Whole launches are drawn with replacement, for the calibration and for the candidates alike: the
pairs of a launch stay together and in order, so whatever a machine does inside a launch is kept
as it was. What is between launches is taken as exchangeable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from layers.measure.boundaries import LookPlan
from layers.measure.recordings import RecordedLaunch, Recording
from layers.measure.simulate import BATCH, CONFIRMING, Draws, Outcome, outcome, rules, total

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pool:
    """Recorded launches of arms that do not differ."""

    log_ratios: Floats  # [launches, pairs], candidate over baseline
    log_rates: Floats  # [launches, 2, pairs], baseline and candidate, completions per second
    after: npt.NDArray[np.intp]  # [launches], the next launch of the same judgement

    def __len__(self) -> int:
        """Return the number of launches."""
        return len(self.log_ratios)


def pool_of(recordings: Sequence[Recording], pairs: int) -> Pool:
    """Return all launches, A/A and candidates' own, that have `pairs` pairs which are not void.

    The first `pairs` count where there are more. Raises ValueError for fewer than two launches.
    """
    rates: list[Floats] = []
    after: list[int] = []
    for recording in recordings:
        of_one = [
            found
            for launch in recording.launches
            if (found := _log_rates(launch, pairs)) is not None
        ]
        first, last = len(rates), len(rates) + len(of_one) - 1
        # The last launch has none after it: it is compared with the first of its judgement.
        after += [i + 1 if i < last else first for i in range(first, last + 1)]
        rates += of_one
    if len(rates) < 2:
        raise ValueError("runs are drawn from at least two recorded launches")
    logs = np.stack(rates)
    return Pool(logs[:, 1] - logs[:, 0], logs, np.array(after))


def _log_rates(launch: RecordedLaunch, pairs: int) -> Floats | None:
    """Return float64[2, pairs], or None where the launch has fewer pairs."""
    kept = [pair.rates for pair in launch.pairs if pair.void is None][:pairs]
    return np.log(np.array(kept, dtype=np.float64).T) if len(kept) == pairs else None


def resample(
    pool: Pool,
    plan: LookPlan,
    runs: int,
    seed: int,
    *,
    ratio: float = 1.0,
    noise_launches: int = 2,
    symmetric: bool = False,
) -> dict[str, Outcome]:
    """Return what each of `simulate.rules` does in `runs` runs drawn from the pool.

    `ratio` plants a true throughput ratio in every candidate. `symmetric` exchanges the arms of
    each drawn launch at random, which they allow as they do not differ: it removes any difference
    that the recorded launches have on average, so the caller says so beside the figures.
    """
    rng = np.random.default_rng(seed)
    parts = []
    for start in range(0, runs, BATCH):
        draws = _draw(
            pool, plan, (min(BATCH, runs - start), noise_launches), rng, symmetric=symmetric
        )
        draws = _planted(draws, float(np.log(ratio)))
        parts.append(
            {name: outcome(draws, plan, rule) for name, rule in rules(draws, plan).items()}
        )
    return {name: total([part[name] for part in parts]) for name in parts[0]}


def _draw(
    pool: Pool,
    plan: LookPlan,
    size: tuple[int, int],
    rng: np.random.Generator,
    *,
    symmetric: bool,
) -> Draws:
    """Draw whole launches; `size` is runs and A/A launches of each."""
    runs, noise_launches = size

    def launches(*shape: int) -> Floats:
        drawn = pool.log_ratios[rng.integers(0, len(pool), shape)]
        signs = rng.choice(np.array([-1.0, 1.0]), shape) if symmetric else np.ones(shape)
        return np.asarray(drawn * signs[..., None], dtype=np.float64)

    first = rng.integers(0, len(pool), (runs, plan.candidates))
    blocks = np.stack([pool.log_rates[first, 0], pool.log_rates[pool.after[first], 1]], axis=-2)
    noise = launches(runs, 1, noise_launches)
    return Draws.of(noise, launches(runs, plan.candidates, plan.looks[-1] + CONFIRMING), blocks)


def _planted(draws: Draws, effect: float) -> Draws:
    """Return the draws with an effect in every candidate."""
    later = draws.sequential + np.array([[0.0], [effect]])
    return Draws(draws.noise, draws.pairs + effect, draws.fresh + effect, later)
