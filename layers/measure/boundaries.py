"""When a gain is looked at, and what each look asks of it. Pure.

O'Brien-Fleming boundaries assume a variance that is known. Ours is estimated from few launches, so
there are two: one over the variance that is assumed at least, and a wider one, Student's with the
launches' own few degrees of freedom, over what launches show beyond that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.polynomial.legendre import leggauss
from scipy import optimize, stats

Floats: TypeAlias = npt.NDArray[np.float64]

# Few launches say little about how much launches differ. Until they do, a launch shift of half a
# percent is assumed at the last look, and more before it: `least_launch_sd`. `layers.measure.worlds`
# and `layers.measure.simulate` are the proof that the rate of false accepts is kept.
LEAST_LAUNCH_SD = 0.005
ASSUMED_LAUNCHES = 4  # how many launches the assumption weighs as much as, where it rules


@lru_cache(maxsize=256)
def obrien_fleming(alpha: float, fractions: tuple[float, ...]) -> tuple[float, ...]:
    """Return the one-sided z boundary of each look: c / sqrt(fraction), crossed with rate alpha.

    `fractions` are the shares of all information at each look, increasing to 1. The constant c
    solves P(some look crosses | no effect) = alpha (O'Brien and Fleming, Biometrics 35, 1979), by
    the recursive integration of Armitage, McPherson and Rowe (J. R. Stat. Soc. A 132, 1969).
    Raises ValueError for an alpha outside (0, 0.5) or fractions that do not increase to 1.
    """
    steps = np.diff(np.array([0.0, *fractions]))
    if not 0 < alpha < 0.5 or not fractions or steps.min() <= 0 or fractions[-1] != 1:
        raise ValueError("alpha must lie in (0, 0.5) and fractions increase to 1")
    least = float(stats.norm.isf(alpha))
    most = float(stats.norm.isf(alpha / len(fractions)) + 1.0)
    constant = optimize.brentq(
        lambda c: _crossing(c, steps) - alpha, least - 1e-9, most, xtol=1e-10
    )
    return tuple(float(constant / np.sqrt(fraction)) for fraction in fractions)


def _crossing(level: float, steps: Floats) -> float:
    """Return P(Brownian motion, seen after each time step, is ever above a constant level).

    In the scale of Brownian motion, z times sqrt(fraction), the boundary is one constant.
    """
    nodes, weights = _quadrature()
    lowest = -8.0  # the motion has variance 1 at the end: what lies below weighs 1e-15
    x = lowest + (level - lowest) * (nodes + 1) / 2
    weights = weights * (level - lowest) / 2
    crossed = float(stats.norm.sf(level, scale=np.sqrt(steps[0])))
    density = stats.norm.pdf(x, scale=np.sqrt(steps[0]))
    for step in np.sqrt(steps[1:]):
        mass = weights * density
        crossed += float((mass * stats.norm.sf((level - x) / step)).sum())
        kernel = np.exp(-(((x[:, None] - x) / step) ** 2) / 2) / (step * np.sqrt(2 * np.pi))
        density = (kernel * mass).sum(axis=1)  # no BLAS: its threads spin on a busy machine
    return crossed


@lru_cache(maxsize=1)
def _quadrature() -> tuple[Floats, Floats]:
    """Return nodes and weights on [-1, 1]; exact to 1e-9 for steps of 1 % of the information."""
    nodes, weights = leggauss(192)
    return nodes, weights


@dataclass(frozen=True, slots=True)
class Standard:
    """What one look asks, given how many launches the noise rests on."""

    k: int
    least_sd: float  # of launches, assumed whatever they show
    boundary: float  # for z over the assumed variance
    own_boundary: float  # for z over the variance that launches show beyond the assumed one


@dataclass(frozen=True, slots=True)
class LookRule:
    """What the look at hand asks, and the last one."""

    now: Standard
    last: Standard
    t95: float  # Student quantile of the 95 % interval


@dataclass(frozen=True, slots=True)
class LookPlan:
    """When a candidate is looked at, and what a false accept may cost.

    `alpha_run` is the one-sided rate of false accepts in a whole run; each of the `candidates`
    that the run allows gets an equal part of it.
    """

    candidates: int
    alpha_run: float = 0.005
    looks: tuple[int, ...] = (1, 2, 4, 8)
    pairs_per_launch: int = 4

    @property
    def fractions(self) -> tuple[float, ...]:
        """Share of all information at each look."""
        return tuple(k / self.looks[-1] for k in self.looks)

    def rule(self, k: int, noise_launches: int) -> LookRule:
        """Return the rule at k launches; raises ValueError where no look is planned."""
        if k not in self.looks:
            raise ValueError(f"no look is planned after {k} launches, only after {self.looks}")
        now = self.standard(k, noise_launches)
        t95 = float(stats.t.isf(0.025, ASSUMED_LAUNCHES + noise_launches + k - 1))
        return LookRule(now, self.standard(self.looks[-1], noise_launches), t95)

    def standard(self, k: int, noise_launches: int) -> Standard:
        """Return what the look at k launches asks.

        An A/A launch gives a whole degree of freedom because its true mean is known: no difference.
        """
        freedom = noise_launches + k - 1
        return Standard(
            k,
            least_launch_sd(k / self.looks[-1]),
            self._boundary(k, freedom + ASSUMED_LAUNCHES),
            self._boundary(k, max(1, freedom)),
        )

    def boundary(self, k: int, noise_launches: int) -> float:
        """Return the boundary for z at k launches, where they differ no more than is assumed."""
        return self.standard(k, noise_launches).boundary

    def _boundary(self, k: int, freedom: float) -> float:
        """Return O'Brien-Fleming's boundary, or Student's where that is larger.

        Student's is at this look's share of alpha, shared out by information gained: the shares
        add up to alpha, so by the union bound the rate holds whatever the first rule does.
        """
        index = self.looks.index(k)
        alpha = self.alpha_run / self.candidates
        share = self.fractions[index] - (self.fractions[index - 1] if index else 0.0)
        known = obrien_fleming(alpha, self.fractions)[index]
        return max(known, float(stats.t.isf(alpha * share, freedom)))


def least_launch_sd(fraction: float) -> float:
    """Return the launch sd assumed at a look that has seen this share of all information.

    0.93 % after one launch of eight: a first look has nothing of its own to say about launches,
    and an acceptance there is for gains that would stand out beside larger shifts too.
    """
    return float(LEAST_LAUNCH_SD * fraction**-0.3)
