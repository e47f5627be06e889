"""What a run of a load generator measured, whichever tool wrote it down."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

LEAST_FOR_P99 = 1000  # requests: ten above the percentile
ACHIEVED = 0.95  # of the rate asked for, below which the server fell behind


@dataclass(frozen=True, slots=True)
class Latency:
    """One kind of latency in seconds; None where the file does not state it."""

    mean_s: float | None = None
    median_s: float | None = None
    p99_s: float | None = None


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of a request's prompt or answer."""

    mean: float
    constant: bool | None = None  # all alike; None: the file does not say


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """One run. Times in seconds, rates per second; None where the file does not say."""

    tool: str
    path: Path
    number: int  # of the run in its file, from 1
    model: str
    completed: int
    failed: int | None
    duration_s: float | None
    inputs: Lengths
    outputs: Lengths
    tpot: Latency  # of requests: their decode time over their tokens after the first
    itl: Latency  # between chunks of an answer
    ttft: Latency
    concurrency: int | None = None  # most requests in flight that the generator allowed
    request_rate: float | None = (
        None  # asked for; inf: all at once; None: none asked for, or not said
    )
    load_known: bool = True  # whether the file says what load was asked for
    tokens_per_step: float | None = None  # measured where drafts were accepted
    tokens_per_chunk: float | None = None  # of an answer

    @property
    def paced(self) -> bool:
        """Whether arrivals followed a rate, whatever the server did."""
        return self.request_rate is not None and math.isfinite(self.request_rate)

    @property
    def closed_loop(self) -> bool:
        """Whether a request was sent only when another one was done (or all at once)."""
        return self.load_known and not self.paced

    @property
    def doubts(self) -> tuple[str, ...]:
        """What a reader has to know before this run is held to a floor or an SLO."""
        return tuple(line for line in (self._load(), *self._tail(), *self._rest()) if line)

    def _load(self) -> str | None:
        if not self.load_known:
            return "the file does not say how load was made: closed or open loop is unknown"
        if self.closed_loop:
            how = f"at most {self.concurrency} in flight" if self.concurrency else "all at once"
            return (
                f"closed loop ({how}, no arrival rate): the generator waits for the server, so tails "
                "and TTFT leave queueing out; step times hold for this batch"
            )
        if self.concurrency and self.concurrency < self.completed:
            return (
                f"arrivals at {self.request_rate:.4g}/s, held back above {self.concurrency} in flight: "
                "open loop only while that many were never reached"
            )
        return None

    def _tail(self) -> tuple[str | None, ...]:
        missing = [
            name
            for name, latency in (("TPOT", self.tpot), ("TTFT", self.ttft))
            if latency.p99_s is None
        ]
        few = self.completed < LEAST_FOR_P99
        return (
            f"no P99 of {' and '.join(missing)}: no SLO is validated" if missing else None,
            f"P99 of {self.completed} requests: fewer than {LEAST_FOR_P99:,} say little about it"
            if few and not missing
            else None,
        )

    def _rest(self) -> tuple[str | None, ...]:
        fixed = [
            name
            for name, lengths in (("prompts", self.inputs), ("answers", self.outputs))
            if lengths.constant
        ]
        return (
            f"{' and '.join(fixed)} of one length: real traffic varies" if fixed else None,
            f"{self.failed:,} requests failed: what they would have taken is not in the figures"
            if self.failed
            else None,
            self._behind(),
        )

    def _behind(self) -> str | None:
        if not self.paced or self.duration_s is None or self.request_rate is None:
            return None
        achieved = self.completed / self.duration_s
        if achieved >= ACHIEVED * self.request_rate:
            return None
        return (
            f"{achieved:.4g} of {self.request_rate:.4g} requests/s were done: the server fell behind "
            "or the run ended early, and queues grew"
        )
