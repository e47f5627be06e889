"""One start against one end: the stack before the run and after it, measured beside each other.

Gains of single candidates are never added up. Both stacks are started afresh in one launch; the
search at the SLO, the tail at one rate and the CPU per request all alternate between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from layers.base import StackView
from layers.evidence import Block, NoiseFloor, Total
from layers.measure import stats, sustained
from layers.measure.blocks import BlockContext, exponential_arrivals
from layers.measure.intervals import Estimate
from layers.measure.launch import ARMS, Arm, Bench, Launch
from layers.measure.load import LoadResult
from layers.measure.share_model import Window

TAIL_REQUESTS = 1000  # per arm: the least that a p99 is printed for
TAIL_SEGMENTS = 4
CPU_PAIRS = 4


@dataclass(frozen=True, slots=True)
class Totals:
    """The total and the noise of the two measures that only it takes."""

    total: Total
    sustained: NoiseFloor
    tail: NoiseFloor | None


def measure_total(
    bench: Bench, start: StackView, end: StackView, budget: sustained.Budget
) -> Totals:
    """Measure `end` against `start`. Raises Inconclusive on a machine that is too noisy."""
    bench.events.phase("total", "start against end, one launch")
    with Launch(bench, 1, start, end, "total") as launch:
        pairs = list(launch.pairs(CPU_PAIRS))
        for measured in pairs:
            for result in measured.results.values():
                result.discard()
        cpu = stats.ratio_ci([measured.pair.cpu_ratio for measured in pairs])
        rates = {
            arm: sustained.START_SHARE_OF_WORK_RATE
            * float(np.median([measured.blocks[arm].rate for measured in pairs]))
            for arm in ARMS
        }
        found = _search(bench, launch, rates, budget)
        # What the start surely holds: at its estimate it may already be falling behind, and a
        # queue that grows with the length of the test makes any ratio of p99.
        rate = found.arms["baseline"].ci[0]
        latencies = _tails(bench, launch, rate)
    gain = found.ratio("candidate", "baseline")
    p99 = stats.bootstrap_quantile_ratio(latencies["baseline"], latencies["candidate"])
    total = Total(
        throughput_ratio=gain.rate,
        ci=gain.ci,
        start=found.arms["baseline"],
        end=found.arms["candidate"],
        p99_ratio=p99.ratio if p99 else None,
        p99_ci=p99.ci if p99 else None,
        p99_rate=rate if p99 else None,
        p99_requests=p99.n if p99 else None,
        p99_ms=_p99_ms(latencies) if p99 else None,
        slo_p99_ms=bench.manifest.slo.p99_ms,
        cpu_ratio=cpu.ratio,
        cpu_ci=cpu.ci,
        cpu_pairs=cpu.n,
    )
    own_tail = stats.bootstrap_quantile_ratio(latencies["baseline"], latencies["baseline"], seed=1)
    low, high = found.arms["baseline"].ci
    return Totals(
        total,
        sustained=_own_floor(sqrt(2) * log(high / low) / 2, found.arms["baseline"].windows),
        tail=_tail_floor(own_tail),
    )


def _search(
    bench: Bench, launch: Launch, rates: dict[Arm, float], budget: sustained.Budget
) -> sustained.Sustained:
    """Search both arms' rate at the SLO, their windows interleaved."""
    done = 0

    def on_block(block: Block, result: LoadResult) -> None:
        nonlocal done
        done += 1
        bench.on_block(block)
        result.discard()
        bench.events.progress(done, 2 * budget.windows, "windows at the SLO")

    def windows(arm: Arm) -> sustained.RunWindow:
        run = sustained.served(
            launch.arm(arm),
            bench.load,
            bench.manifest.slo.p99_ms,
            BlockContext(arm=arm, launch=1, pair=1, position=1),
            bench.rng,
            on_block,
            bench.sending,
        )

        def alone(rate: float, requests: int) -> Window:
            with launch.alone(arm):
                return run(rate, requests)

        return alone

    arms: dict[str, sustained.RunWindow] = {arm: windows(arm) for arm in ARMS}
    return sustained.search(arms, {arm: rates[arm] for arm in ARMS}, budget, bench.rng)


def _tails(bench: Bench, launch: Launch, rate: float) -> dict[Arm, np.ndarray]:
    """Offer both arms the rate that the start sustains; return their latencies in ms."""
    known = len(bench.load.traffic.requests)
    order = np.resize(bench.rng.permutation(known), TAIL_REQUESTS).astype(np.int64)
    arrivals_s = exponential_arrivals(bench.rng, rate, TAIL_REQUESTS)
    recorded = launch.recorded(order, arrivals_s, TAIL_SEGMENTS)
    latencies: dict[Arm, np.ndarray] = {}
    for arm in ARMS:
        latencies[arm] = recorded.latencies_ms(arm)
        for result in recorded.results[arm]:
            result.discard()
    return latencies


def _p99_ms(latencies: dict[Arm, np.ndarray]) -> tuple[float, float]:
    start, end = (float(np.quantile(latencies[arm], 0.99)) for arm in ARMS)
    return start, end


def _own_floor(half_width: float, windows: int) -> NoiseFloor:
    """Return what two estimates of the unmodified stack would differ by, as a noise floor."""
    percent = 100 * half_width
    return NoiseFloor(floor_pct=percent, pair_sd_pct=percent / 1.96, pairs=windows, launches=1)


def _tail_floor(own: Estimate | None) -> NoiseFloor | None:
    """Return the half-width of the unmodified stack's p99 against itself, resampled."""
    if own is None:
        return None
    return _own_floor(log(own.ci[1] / own.ci[0]) / 2, TAIL_SEGMENTS)
