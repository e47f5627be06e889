"""What lines through calls that were measured say of calls that were not, and how much each is to count. Pure.

A line runs along one number of a shape; near a call it has two ends, the next measured ones below and above. It can be
read in four ways, and a call lies on several lines. Which reading to believe at which distance is learned from calls
that were measured, and left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from layers.floor.expected import between, blended, share

Array: TypeAlias = NDArray[np.float64]

NOISE = 0.02  # of measured rows: smaller errors hardly count
LEAST_SPAN = 1e-3  # doublings
UNSAID = -6.0  # log of what "as expected" counts at first
# How each kind of weights is held to where it starts, where rows say little of it. The last one was chosen of five on
# rows that docs/floor.md compares.
HELD = np.array([[1e-5], [1e-5], [1e-3]])
TYPICAL_S = 1e-4  # of a call: logs of seconds are taken over it, which keeps weights of one size


@dataclass(frozen=True, slots=True)
class End:
    """A measured call beside each row, NaN where there is none."""

    at: Array  # its place on the line, above 0
    seconds: Array
    expected_s: Array
    beyond_at: Array  # of the next call beyond it
    beyond: Array  # measured over expected of that one

    @property
    def factor(self) -> Array:
        """Return measured over expected."""
        return self.seconds / self.expected_s


@dataclass(frozen=True, slots=True)
class Line:
    """The lines along one number through rows."""

    at: Array  # the place of each row, above 0
    expected_s: Array  # of each row
    low: End
    high: End

    def readings(self) -> list[tuple[Array, Array]]:
        """Return each reading: measured over expected, NaN where it says nothing, and the doublings that it spans.

        Between both ends: a line of factors over doublings, of seconds over the number, of seconds over those
        expected; a curve of factors through the ends beyond, too; then the factor of the nearer end alone.
        """
        low, high = self.low, self.high
        with np.errstate(invalid="ignore", divide="ignore"):
            down, up = np.log2(self.at / low.at), np.log2(high.at / self.at)
            curved = between(low.factor, high.factor, share(low.at, high.at, self.at))
            ways = (
                _way(low.at, high.at, self.at),
                _way(low.expected_s, high.expected_s, self.expected_s),
            )
        span = down * up
        found = [(curved, span)]
        for way in ways:
            seconds = low.seconds + way * (high.seconds - low.seconds)
            found.append((seconds / self.expected_s, span))
        found.append((self._through_four(), span))
        is_low = np.nan_to_num(down, nan=np.inf) <= np.nan_to_num(up, nan=np.inf)
        nearer = np.where(is_low, low.factor, high.factor)
        return [*found, (nearer, np.fmin(down, up))]

    def _through_four(self) -> Array:
        """Return the factor on a cubic of logarithms through the two next calls on either side."""
        low, high = self.low, self.high
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            places = [
                np.log2(at / self.at) for at in (low.beyond_at, low.at, high.at, high.beyond_at)
            ]
            logs = [np.log(one) for one in (low.beyond, low.factor, high.factor, high.beyond)]
            found = np.zeros_like(self.at)
            for own, (place, log) in enumerate(zip(places, logs, strict=True)):
                others = [other for number, other in enumerate(places) if number != own]
                found += log * np.prod([other / (other - place) for other in others], axis=0)
            factor: Array = np.exp(found)
        return factor


def _way(low: Array, high: Array, at: Array) -> Array:
    """Return how far `at` lies on the way from low to high, NaN where it does not lie between."""
    way: Array = (at - low) / (high - low)
    return np.where((way >= 0) & (way <= 1), way, np.nan)


@dataclass(frozen=True, slots=True)
class Said:
    """What readings of lines say of rows: a row for each row, a column for each reading; the first says 1 of any.

    A reading counts by exp(a - b * span + c * size), with three numbers of its own: weights are
    [[a, ...], [b, ...], [c, ...]]. So long calls may be read otherwise than short ones.
    """

    logs: Array  # of measured over expected; 0 where nothing is said
    spans: Array  # log of the doublings to what was measured; infinite where nothing is said
    sizes: Array  # of each row: log of its expected seconds
    own: NDArray[np.bool_]  # of each column: along a line within one layer

    @classmethod
    def of(cls, lines: Sequence[tuple[Line, bool]], expected_s: Array) -> Said:
        """Return what lines say of rows; with each, whether it runs within one layer."""
        rows = len(expected_s)
        logs, spans, own = [np.zeros(rows)], [np.zeros(rows)], [False]
        for line, within in lines:
            for factor, doublings in line.readings():
                says = np.isfinite(factor) & (factor > 0)
                logs.append(np.log(np.where(says, factor, 1.0)))
                near = np.where(says, doublings, 1.0) + LEAST_SPAN
                spans.append(np.where(says, np.log(near), np.inf))
                own.append(within)
        sizes = np.log(expected_s / TYPICAL_S)
        return cls(np.stack(logs, 1), np.stack(spans, 1), sizes, np.array(own))

    @classmethod
    def joined(cls, parts: Sequence[Said]) -> Said:
        """Return what is said of the rows of several parts, one after the other; of the same lines."""
        logs, spans, sizes = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("logs", "spans", "sizes")
        )
        return cls(logs, spans, sizes, parts[0].own)

    def of_other_layers(self) -> Said:
        """Return what is said of rows whose layers were never measured."""
        return replace(self, spans=np.where(self.own, np.inf, self.spans))

    def shares(self, weights: Array) -> Array:
        """Return how much each reading counts for each row; they add up to 1."""
        says = np.isfinite(self.spans)
        spans = np.where(says, self.spans, 0.0)
        power = weights[0] - weights[1] * spans + weights[2] * self.sizes[:, None]
        power = np.where(says, power, -np.inf)
        counts = np.exp(power - power.max(1, keepdims=True))
        found: Array = counts / counts.sum(1, keepdims=True)
        return found

    def factors(self, weights: Array) -> Array:
        """Return measured over expected of each row."""
        found: Array = blended(list(np.exp(self.logs).T), list(self.shares(weights).T))
        return found


def learned(cases: Sequence[tuple[Said, Array]]) -> Array:
    """Return the weights that miss least; with what was said of rows stands the log of their factors.

    An error counts as log(1 + (error / NOISE)^2), so that the usual ones count beside a few large ones.
    """
    columns = cases[0][0].logs.shape[1]
    start = np.stack([np.zeros(columns), np.ones(columns), np.zeros(columns)])
    start[:, 0] = UNSAID, 0.0, 0.0

    def missed(flat: Array) -> tuple[float, Array]:
        weights = flat.reshape(start.shape)
        off = HELD * (weights - start)
        total, slopes = float((off * (weights - start)).sum()), 2 * off.ravel()
        for said, took in cases:
            error, slope = _error(said, took, weights)
            total, slopes = total + error, slopes + slope
        return total, slopes

    found: Array = minimize(missed, start.ravel(), jac=True, method="L-BFGS-B").x
    return found.reshape(start.shape)


def _error(said: Said, took: Array, weights: Array) -> tuple[float, Array]:
    """Return the mean error of rows, and its slope by each weight."""
    shares = said.shares(weights)
    means = (shares * said.logs).sum(1)
    off = means - took
    slope = 2 * off / (off**2 + NOISE**2) / len(off)
    each = slope[:, None] * shares * (said.logs - means[:, None])
    spans = np.where(np.isfinite(said.spans), said.spans, 0.0)
    error = float(np.mean(np.log1p((off / NOISE) ** 2)))
    by_size = each.T @ said.sizes
    return error, np.concatenate([each.sum(0), -(each * spans).sum(0), by_size])
