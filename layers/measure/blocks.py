"""Blocks: a stretch of load on one deployment, with what the machine did meanwhile.

A work block keeps a fixed number of requests in flight: its rate and the server's CPU per request
compare two arms, it has no latency. A rate block offers requests at given times: its latencies
count from the schedule. Nothing is trimmed from either.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np
import psutil
from numpy.typing import NDArray

from layers.evidence import Block
from layers.measure.checks import (
    BlockFacts,
    Limits,
    achieved_share,
    percentiles,
    voids,
)
from layers.measure.fresh import RequestSet
from layers.measure.load import LoadGenerator, LoadResult
from layers.measure.records import OK
from layers.sandbox.cgroups import Waits

READING_S = 1e-3  # two clocks of the same processes differ by less


class Deployment(Protocol):
    """What a block needs of a running stack; `layers.triton.server.Deployment` has it."""

    @property
    def grpc(self) -> str:
        """Return the address, `host:port`."""

    def cpu_seconds(self) -> Mapping[str, float]:
        """Return the CPU seconds used so far, by process."""

    def all_cpu_seconds(self) -> float:
        """Return the CPU seconds used so far by all processes, ended and unnamed ones included."""

    def waits(self) -> Waits | None:
        """Return how much all of it has waited for memory so far; None where that is not known."""

    def alive(self) -> None:
        """Raise ToolFailed when a process of the stack died or was stopped."""


@dataclass(frozen=True, slots=True)
class BlockContext:
    """Where a block stands in the plan, and how it is judged."""

    arm: Literal["baseline", "candidate"]
    launch: int
    pair: int
    position: Literal[1, 2]
    limits: Limits = field(default_factory=Limits)
    # int64[requests of the traffic]: bytes below which a response is short; None: only empty ones
    least_bytes: NDArray[np.int64] | None = None
    requests: RequestSet | None = None  # what orders count in; None: the recording
    idle: Deployment | None = None  # the other arm, if it runs beside this one


@dataclass(frozen=True, slots=True)
class _Usage:
    """CPU seconds used since some fixed time, by whom."""

    at: float  # seconds since the Unix epoch
    wall_s: float
    busy_s: float  # the whole machine, time stolen by its host included
    generator_s: float
    own_s: float
    server_s: Mapping[str, float]
    all_s: float  # of the measured arm: `server_s`, and whatever else runs in it
    idle_s: float | None
    waits: Waits | None  # of the measured arm


@dataclass(frozen=True, slots=True)
class _Spent:
    """The difference of two usages."""

    started_at: float  # seconds since the Unix epoch
    generator_cores: float
    neighbour_cores: float
    server_cores: float
    idle_cores: float | None
    server_s: dict[str, float]
    faults_per_s: float | None
    memory_stalled: float | None


def work_block(
    deployment: Deployment,
    load: LoadGenerator,
    order: NDArray[np.int64],
    in_flight: int,
    context: BlockContext,
) -> tuple[Block, LoadResult]:
    """Measure work: `order` with `in_flight` requests on their way at all times.

    The rate is completions over first send to last completion. The ramp down at the end distorts
    it little from 60 requests on, see `checks.Limits`.
    """
    result, spent = _under_load(
        deployment,
        load,
        context.idle,
        lambda: load.closed(deployment.grpc, order, in_flight, requests=context.requests),
    )
    block = _block("work", _facts(result, spent, context), result, spent, context)
    return block.model_copy(update={"in_flight": in_flight}), result


def rate_block(
    deployment: Deployment,
    load: LoadGenerator,
    order: NDArray[np.int64],
    arrivals_s: NDArray[np.float64],
    slo_ms: float,
    context: BlockContext,
    *,
    measure: Literal["sustained", "tail"] = "tail",
) -> tuple[Block, LoadResult]:
    """Measure latencies: `order[i]` is sent at `arrivals_s[i]` seconds, whatever happens.

    `over_slo` counts the answers later than the SLO and the errors. `offered` is requests over the
    span of the schedule.
    """
    result, spent = _under_load(
        deployment,
        load,
        context.idle,
        lambda: load.open(deployment.grpc, order, arrivals_s, requests=context.requests),
    )
    done_s = result.records["done_s"][result.records["code"] == OK]
    facts = replace(
        _facts(result, spent, context),
        slo_ms=slo_ms,
        lag_p99_ms=result.lag_p99_ms,
        achieved_share=achieved_share(result.records["scheduled_s"], done_s, slo_ms),
    )
    latencies_ms = result.latencies_ms()
    update = {
        "offered": len(order) / max(float(arrivals_s[-1]), 1e-9),
        "over_slo": int(np.count_nonzero(latencies_ms > slo_ms)) + result.errors,
        "over_slo_in_time": _slow_in_time(result, slo_ms, context.limits.lag_ms(slo_ms)),
        "latency_ms": percentiles(latencies_ms),
    }
    return _block(measure, facts, result, spent, context).model_copy(update=update), result


def exponential_arrivals(rng: np.random.Generator, rate: float, count: int) -> NDArray[np.float64]:
    """Return float64[count] seconds: independent arrivals at `rate` per second on average.

    The gaps are scaled so that the last arrival is at count / rate exactly: a window offers what it
    says, and its rate adds no noise of its own.
    """
    times_s: NDArray[np.float64] = np.cumsum(rng.exponential(1.0, count))
    scaled_s: NDArray[np.float64] = times_s * (count / rate / times_s[-1])
    return scaled_s


def _under_load(
    deployment: Deployment,
    load: LoadGenerator,
    idle: Deployment | None,
    run: Callable[[], LoadResult],
) -> tuple[LoadResult, _Spent]:
    """Run a block of load between two readings of the CPU clocks."""
    deployment.alive()
    before = _usage(deployment, load, idle)
    result = run()
    spent = _spent(before, _usage(deployment, load, idle))
    deployment.alive()
    return result, spent


def _facts(result: LoadResult, spent: _Spent, context: BlockContext) -> BlockFacts:
    """Return what the void rules look at in every kind of block."""
    return BlockFacts(
        requests=len(result.records),
        errors=result.errors,
        short_outputs=_short_outputs(result, context.least_bytes),
        generator_cores=spent.generator_cores,
        neighbour_cores=spent.neighbour_cores,
    )


def _block(
    measure: Literal["work", "sustained", "tail"],
    facts: BlockFacts,
    result: LoadResult,
    spent: _Spent,
    context: BlockContext,
) -> Block:
    """Write down what every kind of block has."""
    broken = voids(facts, context.limits)
    return Block(
        arm=context.arm,
        measure=measure,
        launch=context.launch,
        pair=context.pair,
        position=context.position,
        started_at=spent.started_at,
        requests=facts.requests,
        completed=result.completed,
        errors=result.errors,
        wall_s=result.wall_s,
        rate=result.completed / result.wall_s if result.wall_s > 0 else 0.0,
        cpu_s=spent.server_s,
        server_cpu=spent.server_cores,
        idle_cpu=spent.idle_cores,
        generator_cpu=spent.generator_cores,
        lag_p99_ms=result.lag_p99_ms,
        neighbour_cpu=spent.neighbour_cores,
        faults_per_s=spent.faults_per_s,
        memory_stalled=spent.memory_stalled,
        void=broken[0].reason.value if broken else None,
    )


def _short_outputs(result: LoadResult, least_bytes: NDArray[np.int64] | None) -> int:
    """Count the answers that are empty, or shorter than that request's answer has to be."""
    answered = result.records[result.records["code"] == OK]
    least = 1 if least_bytes is None else np.maximum(least_bytes[answered["index"]], 1)
    return int(np.count_nonzero(answered["length"] < least))


def _slow_in_time(result: LoadResult, slo_ms: float, lag_ms: float) -> int:
    """Count what was slow by itself: sent before any send was late, answered later than the SLO.

    What comes after a late send may be slow for that.
    """
    records = result.records
    late = (records["sent_s"] - records["scheduled_s"]) * 1e3 > lag_ms
    before = records[: int(late.argmax())] if late.any() else records
    slow = (before["code"] != OK) | ((before["done_s"] - before["sent_s"]) * 1e3 > slo_ms)
    return int(np.count_nonzero(slow))


def _usage(deployment: Deployment, load: LoadGenerator, idle: Deployment | None) -> _Usage:
    """Read the clocks of the machine, both arms, the generator and this process."""
    times = psutil.cpu_times()
    # User time already holds guest time; waiting for a disk is idleness.
    busy_s = times.user + times.nice + times.system + times.irq + times.softirq + times.steal
    own = os.times()
    return _Usage(
        at=time.time(),
        wall_s=time.monotonic(),
        busy_s=busy_s,
        generator_s=load.cpu_seconds(),
        own_s=own.user + own.system,
        server_s=dict(deployment.cpu_seconds()),
        all_s=deployment.all_cpu_seconds(),
        idle_s=None if idle is None else idle.all_cpu_seconds(),
        waits=deployment.waits(),
    )


def _spent(before: _Usage, after: _Usage) -> _Spent:
    """Share out the CPU time between two readings; what nobody of ours used is a neighbour's."""
    wall_s = max(after.wall_s - before.wall_s, 1e-9)
    server_s = {
        name: max(0.0, used_s - before.server_s.get(name, 0.0))
        for name, used_s in after.server_s.items()
    }
    named_s = sum(server_s.values())
    all_s = max(named_s, after.all_s - before.all_s)
    if all_s - named_s > READING_S:
        server_s["other"] = server_s.get("other", 0.0) + all_s - named_s
    generator_s = after.generator_s - before.generator_s
    idle_s = None
    if before.idle_s is not None and after.idle_s is not None:
        idle_s = max(0.0, after.idle_s - before.idle_s)
    faults_per_s, stalled = _waited(before.waits, after.waits, wall_s)
    ours_s = all_s + (idle_s or 0.0) + generator_s + after.own_s - before.own_s
    return _Spent(
        started_at=before.at,
        generator_cores=generator_s / wall_s,
        neighbour_cores=max(0.0, after.busy_s - before.busy_s - ours_s) / wall_s,
        server_cores=all_s / wall_s,
        idle_cores=None if idle_s is None else idle_s / wall_s,
        server_s=server_s,
        faults_per_s=faults_per_s,
        memory_stalled=stalled,
    )


def _waited(
    before: Waits | None, after: Waits | None, wall_s: float
) -> tuple[float | None, float | None]:
    """Return major faults a second, and the share of the time spent waiting for memory."""
    if before is None or after is None:
        return None, None
    faults_per_s = max(0, after.major_faults - before.major_faults) / wall_s
    if before.stalled_s is None or after.stalled_s is None:
        return faults_per_s, None
    return faults_per_s, max(0.0, after.stalled_s - before.stalled_s) / wall_s
