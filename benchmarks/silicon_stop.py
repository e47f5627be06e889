"""Stop thresholds from measured rows: when a row is near enough to its floor to be left alone.

A stop is right where no other backend of the package (framework, version or kernel) makes the same call on the same
system 15 % faster. That is what better software was seen to do, not the best that there can be. Rows that only one
backend has say nothing and are left out.

A threshold is a factor and a fixed time: stop if measured < factor * floor + fixed. The fixed time stands for what no
floor accounts for (launch, ramp, synchronisation) and makes it say something of small calls too. Of all pairs the one
is taken that stops most rows rightly while at most `MOST_FALSE` of its stops are false, on each system of its family.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.int64]

BEATEN_BY = 1.15
FLAT = 1.3  # Floor-First Triage (2026)
MOST_FALSE = 0.05
FIXED_S = (0.0, 1e-6, 2e-6, 3e-6, 4e-6, 6e-6, 8e-6, 12e-6, 16e-6, 24e-6)
FACTORS = np.round(np.arange(1.0, 3.01, 0.02), 2)  # at three times its floor a call is looked at
LEAST_ROWS = 200  # a group of fewer is not calibrated


@dataclass(frozen=True, slots=True)
class Threshold:
    """Stop if measured < factor * floor + fixed_s."""

    factor: float
    fixed_s: float = 0.0

    def stops(self, latency_s: Array, floor_s: Array) -> Flags:
        """Return which rows it stops at."""
        stopped: Flags = latency_s < self.factor * floor_s + self.fixed_s
        return stopped


@dataclass(frozen=True, slots=True)
class Rates:
    """What a threshold does to rows."""

    rows: int
    stops: int
    false_stops: int  # another backend is 15 % faster
    false_escalations: int  # none is

    @property
    def false_stop_rate(self) -> float:
        """Share of the stops that are false."""
        return self.false_stops / self.stops if self.stops else 0.0

    @property
    def false_escalate_rate(self) -> float:
        """Share of the escalations that are false."""
        escalated = self.rows - self.stops
        return self.false_escalations / escalated if escalated else 0.0

    @property
    def stopped(self) -> float:
        """Share of the rows."""
        return self.stops / self.rows if self.rows else 0.0

    def __add__(self, other: Rates) -> Rates:
        """Return the rates of both sets of rows."""
        return Rates(
            self.rows + other.rows,
            self.stops + other.stops,
            self.false_stops + other.false_stops,
            self.false_escalations + other.false_escalations,
        )


NONE = Rates(0, 0, 0, 0)


def compared(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that another backend has too, with `beaten`: one of these is 15 % faster."""
    call = ["operation", "system", "dtype", "shape"]
    best = frame.group_by(*call, "backend").agg(best=pl.col("latency_s").min()).sort("best")
    two = best.group_by(call).agg(
        first=pl.col("best").first(),
        owner=pl.col("backend").first(),
        second=pl.col("best").get(1, null_on_oob=True),
    )
    own = pl.col("backend") == pl.col("owner")
    other = pl.when(own).then("second").otherwise("first")
    joined = frame.join(two, on=call).with_columns(other_s=other)
    kept = joined.filter(pl.col("other_s").is_not_null())
    return kept.with_columns(beaten=pl.col("latency_s") >= BEATEN_BY * pl.col("other_s"))


def fit(frame: pl.DataFrame) -> Threshold:
    """Return the threshold that stops most rows rightly with few false stops; FLAT where rows are few."""
    if len(frame) < LEAST_ROWS:
        return Threshold(FLAT)
    system: Codes = frame["system"].rank("dense").to_numpy().astype(np.int64) - 1
    found = (_best_factor(*_columns(frame), system, fixed_s) for fixed_s in FIXED_S)
    return max(found, key=lambda pair: pair[0])[1]


def _best_factor(
    latency_s: Array, floor_s: Array, beaten: Flags, system: Codes, fixed_s: float
) -> tuple[int, Threshold]:
    """Return how many rows the best factor for one fixed time stops rightly, and the threshold."""
    needed = np.searchsorted(FACTORS, (latency_s - fixed_s) / floor_s, side="right")
    stops = _stopped(needed, system, int(system.max()) + 1)
    false = _stopped(needed[beaten], system[beaten], len(stops))
    kept = np.all(false <= MOST_FALSE * stops, axis=0)
    right = np.where(kept, (stops - false).sum(axis=0), -1)
    best = int(right.argmax())
    return int(right[best]), Threshold(float(FACTORS[best]), fixed_s)


def _stopped(needed: Codes, system: Codes, systems: int) -> Codes:
    """Return how many rows each factor stops on each system (systems x factors)."""
    size = len(FACTORS) + 1
    counts = np.bincount(system * size + needed, minlength=systems * size)
    found: Codes = np.cumsum(counts.reshape(systems, size), axis=1)[:, :-1]
    return found


def rates(frame: pl.DataFrame, threshold: Threshold) -> Rates:
    """Return what a threshold does to rows with `beaten`."""
    latency_s, floor_s, beaten = _columns(frame)
    stopped = threshold.stops(latency_s, floor_s)
    return Rates(
        len(stopped),
        int(stopped.sum()),
        int((stopped & beaten).sum()),
        int((~stopped & ~beaten).sum()),
    )


def _columns(frame: pl.DataFrame) -> tuple[Array, Array, Flags]:
    return (
        frame["latency_s"].to_numpy(),
        frame["floor_s"].to_numpy(),
        frame["beaten"].to_numpy(),
    )


def with_held_out(frame: pl.DataFrame, shape: Sequence[str]) -> pl.DataFrame:
    """Return the rows with `held_out`: one in five of the shapes, by arithmetic, so the same in each run."""
    numbers = [name for name in shape if frame[name].dtype.is_integer()]
    primes = (1_000_003, 10_007, 100_003, 7, 31, 1_009, 65_537, 127)
    mixed = sum(pl.col(name) * prime for name, prime in zip(numbers, primes, strict=False))
    return frame.with_columns(held_out=(mixed % 8191) % 5 == 0)


def groups(frame: pl.DataFrame) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """Yield dtype, family and rows of each group that has a threshold of its own."""
    for (dtype, family), part in frame.sort("dtype", "family").group_by(
        "dtype", "family", maintain_order=True
    ):
        yield dtype, family, part


def by_shape(frame: pl.DataFrame) -> tuple[Rates, Rates]:
    """Return what the flat and the calibrated thresholds do to the held-out shapes, fitted on the others."""
    flat, calibrated = NONE, NONE
    for _, _, part in groups(frame):
        unseen = part.filter("held_out")
        flat += rates(unseen, Threshold(FLAT))
        calibrated += rates(unseen, fit(part.filter(~pl.col("held_out"))))
    return flat, calibrated


def by_system(frame: pl.DataFrame) -> tuple[Rates, Rates]:
    """Return the same for each system in turn, fitted on the others of its family (families of one left out)."""
    flat, calibrated = NONE, NONE
    for _, _, part in groups(frame):
        systems = part["system"].unique().sort()
        for system in systems if len(systems) > 1 else ():
            unseen = part.filter(pl.col("system") == system)
            flat += rates(unseen, Threshold(FLAT))
            calibrated += rates(unseen, fit(part.filter(pl.col("system") != system)))
    return flat, calibrated
