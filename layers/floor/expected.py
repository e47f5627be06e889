"""Expected times: what kernels of a class are seen to take, where a floor is what none can beat.

Two estimates, of floats or of arrays of one shape. An `Efficiency` is four numbers, fitted to measured calls of one class,
dtype and hardware family: it holds for any size and for devices that nobody measured. Where calls near by were
measured, what they took over what was expected of them corrects it: `between` two on a line, `blended` over lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from layers.floor.account import Account, Quantity
from layers.floor.floors import times
from layers.floor.hardware import Hardware
from layers.floor.operations import warm

# log(x) is the limit of (x^p - 1) / p: a small power serves floats and arrays alike.
SMALL = 2.0**-10


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds that a call needs at the peaks of a device, by what it waits for."""

    moved_s: Quantity  # bytes from memory or over a link
    kept_s: Quantity  # bytes that the last-level cache still holds, had they come from memory
    math_s: Quantity


@dataclass(frozen=True, slots=True)
class Efficiency:
    """How many times its peak seconds each term takes, and what a call takes whatever it does.

    `kept` may lie below 1: the last-level cache is faster than memory.
    """

    moved: float
    kept: float
    math: float
    fixed_s: float

    def expected_s(self, terms: Terms) -> Quantity:
        """Return the seconds of a call.

        Memory and arithmetic overlap, but least where both take long: the root of the sum of their squares lies
        between their maximum and, by at most 41 % of it, their sum.
        """
        moved_s = self.moved * terms.moved_s + self.kept * terms.kept_s
        math_s = self.math * terms.math_s
        return self.fixed_s + (moved_s * moved_s + math_s * math_s) ** 0.5


def terms(cold: Account, hardware: Hardware, copies: Quantity | None = None) -> Terms:
    """Return the terms of a call: cold, or made before on `copies` sets of operands (see `operations.warm`).

    Raises KeyError where the card has no peak for the dtype.
    """
    asked = cold if copies is None else warm(cold, hardware, copies)
    found = times(asked, hardware)
    kept_s = (cold.hbm_bytes - asked.hbm_bytes) / hardware.hbm_bytes_per_s
    return Terms(found.hbm_s + found.network_s, kept_s, found.compute_s)


def share(low: Quantity, high: Quantity, at: Quantity) -> Quantity:
    """Return how far `at` lies on the way from low to high on a logarithmic scale; all above 0, low below high."""
    start = low**SMALL
    return (at**SMALL - start) / (high**SMALL - start)


def between(low: Quantity, high: Quantity, way: Quantity) -> Quantity:
    """Return the factor `way` (0 to 1) from one measured factor to another: their logarithms' line."""
    return low ** (1.0 - way) * high**way


def blended(factors: Sequence[Quantity], weights: Sequence[Quantity]) -> Quantity:
    """Return the weighted geometric mean of factors; raises ValueError where there are none or not a weight each."""
    if not factors or len(factors) != len(weights):
        raise ValueError(f"{len(factors)} factors and {len(weights)} weights")
    whole, found = sum(weights), 1.0
    for factor, weight in zip(factors, weights, strict=True):
        found = found * factor ** (weight / whole)
    return found
