"""From windows of load to the rate at which one request in a hundred misses the SLO. Pure.

Model of a window of n requests at rate r, of which k are over the SLO:

    logit p(r) = logit(1 %) + slope (log r - log rate)      share over the SLO, rises with load
    k ~ 98 %   beta-binomial(n, p, correlation)             late requests come in bursts
      +  2 %   uniform on 0..n                              a window that a stall of the machine hit

The rate, the slope and the correlation are unknown and live on a grid with weak priors; each window
multiplies in its likelihood, so the answer is a distribution and needs no optimiser that could fail.
The uniform part bounds what one window can do: a stalled one moves the distribution hardly at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, expit, gammaln, logit, logsumexp

Floats = NDArray[np.float64]

SHARE_OVER_SLO = 0.01  # p99 at the SLO
CONTAMINATED = 0.02  # prior share of windows that a stall hit
LOG_RATE_STEP = 0.01
LOG_RATE_SPAN = 2.3  # the grid covers a tenth to ten times the starting rate
# Weak priors, as median and standard deviation of the logarithm. A queue with one server that takes
# a tenth to a third of the SLO per request has a slope of 10 to 30.
RATE_PRIOR_SD = 0.6
SLOPE_PRIOR = (16.0, 0.7)
SLOPES = np.geomspace(4.0, 80.0, 16)
CORRELATIONS = np.array([0.003, 0.01, 0.03, 0.08, 0.2])


@dataclass(frozen=True, slots=True)
class Window:
    """One stretch of open-loop load at one rate."""

    rate: float  # offered, requests per second
    requests: int
    over: int  # answered after the SLO, or not answered rightly
    void: str | None = None  # reason code; a void window is dropped


@dataclass(frozen=True, slots=True)
class RateEstimate:
    """The rate at the SLO with its central 95 % interval."""

    rate: float
    ci: tuple[float, float]


class ShareModel:
    """The distribution of one arm's rate at the SLO, given its windows so far."""

    def __init__(self, start_rate: float) -> None:
        """Begin with the prior around `start_rate`, requests per second."""
        steps = int(LOG_RATE_SPAN / LOG_RATE_STEP)
        # Multiples of one step, so that the grids of two arms line up.
        centre = round(np.log(start_rate) / LOG_RATE_STEP)
        self.first_step = centre - steps
        offsets: Floats = np.arange(-steps, steps + 1, dtype=np.float64)
        self._log_rates: Floats = (centre + offsets) * LOG_RATE_STEP
        median, sd = SLOPE_PRIOR
        rate_prior = -0.5 * (offsets * LOG_RATE_STEP / RATE_PRIOR_SD) ** 2
        slope_prior = -0.5 * (np.log(SLOPES / median) / sd) ** 2
        self._log_weight: Floats = (
            rate_prior[:, None, None]
            + slope_prior[None, :, None]
            + np.zeros(len(CORRELATIONS))[None, None, :]
        )

    def update(self, window: Window) -> None:
        """Multiply in the likelihood of one window."""
        distance = np.log(window.rate) - self._log_rates[:, None]
        share = expit(logit(SHARE_OVER_SLO) + SLOPES[None, :] * distance)
        share = np.clip(share, 1e-9, 1 - 1e-9)[:, :, None]
        size = 1 / CORRELATIONS[None, None, :] - 1
        late, good = window.over, window.requests - window.over
        clean = (
            _log_choose(window.requests, late)
            + betaln(late + share * size, good + (1 - share) * size)
            - betaln(share * size, (1 - share) * size)
        )
        stalled = np.log(CONTAMINATED / (window.requests + 1))
        self._log_weight = self._log_weight + np.logaddexp(np.log1p(-CONTAMINATED) + clean, stalled)

    def probabilities(self) -> Floats:
        """Return the probability of each rate on the grid, float64[rates]."""
        marginal = logsumexp(self._log_weight, axis=(1, 2))
        weights: Floats = np.exp(marginal - logsumexp(marginal))
        return weights

    def estimate(self) -> RateEstimate:
        """Return the median and the central 95 % of the distribution."""
        low, middle, high = (
            float(np.exp(x))
            for x in _quantiles(self.probabilities(), self.first_step, (0.025, 0.5, 0.975))
        )
        return RateEstimate(middle, (low, high))

    def rate_for(self, share: float) -> float:
        """Return the rate at which this share of requests is expected over the SLO."""
        slope_weights = np.exp(
            logsumexp(self._log_weight, axis=(0, 2)) - logsumexp(self._log_weight)
        )
        slope = float(np.exp(slope_weights @ np.log(SLOPES)))
        ahead = (logit(share) - logit(SHARE_OVER_SLO)) / slope
        return float(self.estimate().rate * np.exp(ahead))


def ratio(numerator: ShareModel, denominator: ShareModel) -> RateEstimate:
    """Return the ratio of two arms' rates with its central 95 %.

    The arms are independent given the windows, so the distribution of the difference of the
    logarithms is the convolution of theirs, on the grid's common step.
    """
    mass = np.convolve(numerator.probabilities(), denominator.probabilities()[::-1])
    last = denominator.first_step + len(denominator.probabilities()) - 1
    low, middle, high = (
        float(np.exp(x)) for x in _quantiles(mass, numerator.first_step - last, (0.025, 0.5, 0.975))
    )
    return RateEstimate(middle, (low, high))


def _quantiles(mass: Floats, first_step: int, levels: tuple[float, ...]) -> Floats:
    """Return quantiles of a distribution over multiples of the step, each mass spread over a step."""
    edges = (first_step + np.arange(len(mass) + 1) - 0.5) * LOG_RATE_STEP
    cumulative = np.concatenate([[0.0], np.cumsum(mass)])
    quantiles: Floats = np.interp(levels, cumulative, edges)
    return quantiles


def _log_choose(total: int, chosen: int) -> float:
    """Return the logarithm of a binomial coefficient."""
    return float(gammaln(total + 1) - gammaln(chosen + 1) - gammaln(total - chosen + 1))
