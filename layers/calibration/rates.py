"""Repeated measurements of one rate: median, its interval, and the best."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Measured:
    """Repetitions of one quantity, in the order taken."""

    values: Sequence[float]

    @property
    def median(self) -> float:
        """The median."""
        return statistics.median(self.values)

    @property
    def interval(self) -> tuple[float, float]:
        """Two repetitions that the true median lies between, in at least 95 % of such series.

        Order statistics: fewer than k of n lie below the median with the probability of a fair coin
        (Conover, Practical Nonparametric Statistics, 3.2). All values where there are too few.
        """
        ordered, n = sorted(self.values), len(self.values)
        outside, rank = 0.0, 0
        while rank < n // 2:
            outside += 2 * math.comb(n, rank) / 2**n
            if outside > 1 - CONFIDENCE:
                break
            rank += 1
        low = max(0, rank - 1)
        return ordered[low], ordered[n - 1 - low]
