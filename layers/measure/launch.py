"""A launch: both arms started afresh, then measured beside each other in paired blocks.

Whatever a start decides once (memory layout, thread placement, caches) shifts every block of that
launch together, so the launch is the unit of the statistics and pairs only refine it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from layers.base import StackView
from layers.errors import FvecError, Inconclusive, InvalidInput, ToolFailed
from layers.events import Events
from layers.evidence import Block, Pair
from layers.manifest import Manifest
from layers.measure.blocks import BlockContext, rate_block, work_block
from layers.measure.checks import ENVIRONMENT, Limits
from layers.measure.load import LoadGenerator, LoadResult
from layers.triton.environment import ServerEnvironment
from layers.triton.remote import RemoteDeployment
from layers.triton.server import Deployment

Arm: TypeAlias = Literal["baseline", "candidate"]
Served: TypeAlias = Deployment | RemoteDeployment
MeasureBlock: TypeAlias = Callable[[Served, BlockContext], tuple[Block, LoadResult]]
ARMS: tuple[Arm, Arm] = ("baseline", "candidate")

WARM_REQUESTS = 32  # per arm and launch: first calls allocate, page in and fill caches
# At the recorded rate an arm that falls behind is late, and counted so; the block is not void.
RECORDED_LIMITS = Limits(achieved_share=0.0)
MAX_VOID = 6  # void pairs in one launch before the machine counts as too busy to measure on


class DoesNotServe(FvecError):
    """The candidate does not serve where the baseline does; `reason` is the verdict's code."""

    def __init__(self, message: str, reason: str = "does_not_serve") -> None:
        """Keep the reason code beside the text."""
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Bench:
    """The instruments of a run: the same for every launch in it."""

    env: ServerEnvironment
    load: LoadGenerator
    manifest: Manifest
    log_dir: Path
    rng: np.random.Generator
    block_requests: int
    events: Events
    on_block: Callable[[Block], None]

    def draw(self) -> NDArray[np.int64]:
        """Return the requests of one pair, int64[block_requests], drawn without replacement."""
        known = len(self.load.traffic.requests)
        return self.rng.permutation(known)[: self.block_requests].astype(np.int64)

    def deploy(self, view: StackView, name: str, *, probed: bool = True) -> Served:
        """Return a deployment of `view`, not yet started; `probed`: by a real request.

        With `server.address` it is the user's own running server, whatever the view: such a
        server can be planned for and measured against itself, and `layers.run.run` refuses it.
        """
        probe = self.load.traffic.requests[0] if probed else None
        if self.manifest.server.address:
            return RemoteDeployment(self.manifest.server.address, probe=probe)
        return Deployment(
            view,
            self.env,
            cpus=self.manifest.server.cpus,
            log_dir=self.log_dir / name,
            start_timeout_s=self.manifest.server.start_timeout_s,
            probe=probe,
        )

    def warm(self, deployment: Served) -> None:
        """Serve a few requests that nobody measures."""
        order = self.draw()[:WARM_REQUESTS]
        self.load.closed(deployment.grpc, order, self.manifest.traffic.in_flight)


@dataclass(frozen=True, slots=True)
class MeasuredPair:
    """One pair with what both arms answered, so that every timed output can be verified."""

    pair: Pair
    blocks: dict[Arm, Block]
    results: dict[Arm, LoadResult]


@dataclass(slots=True)
class Recorded:
    """Both arms under the recorded arrivals, segment by segment."""

    blocks: dict[Arm, list[Block]] = field(default_factory=lambda: {arm: [] for arm in ARMS})
    results: dict[Arm, list[LoadResult]] = field(default_factory=lambda: {arm: [] for arm in ARMS})

    def latencies_ms(self, arm: Arm) -> NDArray[np.float64]:
        """Return the latencies of all segments of one arm, in order of arrival."""
        return np.concatenate([result.latencies_ms() for result in self.results[arm]])


class Launch:
    """Both arms of one launch, as a context manager. The same view twice is an A/A launch."""

    def __init__(
        self, bench: Bench, number: int, baseline: StackView, candidate: StackView, label: str
    ) -> None:
        """Prepare launch `number` (from 1); `label` names its log folders."""
        self.number = number
        self._bench = bench
        self._views = {"baseline": baseline, "candidate": candidate}
        self._label = label
        self._undo = ExitStack()
        self._arms: dict[Arm, Served] = {}
        self._pairs = 0
        self._void = 0

    def __enter__(self) -> Self:
        """Start and warm both arms. DoesNotServe when only the candidate fails to."""
        with ExitStack() as undo:
            # In random order: measured, the server that is started second runs 1 to 2 % faster.
            for arm in self._order_of_arms():
                name = f"{self._label}-{self.number}-{arm}"
                deployment = self._bench.deploy(self._views[arm], name)
                self._arms[arm] = self._start(undo, arm, deployment)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop both arms, together: each takes seconds to leave."""
        for deployment in self._arms.values():
            deployment.begin_stop()
        self._undo.close()

    def arm(self, arm: Arm) -> Served:
        """Return the running deployment of one arm."""
        return self._arms[arm]

    def pairs(self, count: int) -> Iterator[MeasuredPair]:
        """Measure `count` pairs of work blocks. Inconclusive when too many blocks are void."""
        done = 0
        while done < count:
            measured = self._pair(self._bench.draw())
            if measured is None:
                continue
            done += 1
            yield measured

    def recorded(
        self, order: NDArray[np.int64], arrivals_s: NDArray[np.float64], segments: int
    ) -> Recorded:
        """Replay recorded arrivals on both arms, cut into segments that alternate at random."""
        recorded = Recorded()
        parts = np.array_split(np.arange(len(order)), segments)
        for number, part in enumerate(parts, 1):
            # A segment is measured again, on both arms, until neither of its blocks is void.
            while not self._segment(recorded, order[part], arrivals_s[part]):
                continue
            self._bench.events.progress(number, segments, "segments of recorded traffic")
        return recorded

    def _start(self, undo: ExitStack, arm: Arm, deployment: Served) -> Served:
        try:
            undo.enter_context(deployment)
        except (InvalidInput, ToolFailed) as error:
            if arm == "baseline":
                raise
            raise DoesNotServe(error.message) from error
        self._bench.warm(deployment)
        return deployment

    def _order_of_arms(self) -> Sequence[Arm]:
        return ARMS if self._bench.rng.random() < 0.5 else ARMS[::-1]

    def _context(self, arm: Arm, position: int) -> BlockContext:
        return BlockContext(
            arm=arm,
            launch=self.number,
            pair=self._pairs,
            position=1 if position == 1 else 2,
        )

    def _pair(self, order: NDArray[np.int64]) -> MeasuredPair | None:
        """Measure one pair; None if one of its blocks is void."""
        bench = self._bench

        def measure(served: Served, context: BlockContext) -> tuple[Block, LoadResult]:
            return work_block(served, bench.load, order, bench.manifest.traffic.in_flight, context)

        blocks, results = self._both(measure)
        if self._any_void(blocks, results):
            return None
        return MeasuredPair(_ratios(blocks), blocks, results)

    def _segment(
        self, recorded: Recorded, order: NDArray[np.int64], arrivals_s: NDArray[np.float64]
    ) -> bool:
        """Measure one segment on both arms; False, and nothing kept, if a block is void."""
        bench = self._bench

        def measure(served: Served, context: BlockContext) -> tuple[Block, LoadResult]:
            context = replace(context, limits=RECORDED_LIMITS)
            slo_ms = bench.manifest.slo.p99_ms
            return rate_block(
                served, bench.load, order, arrivals_s - arrivals_s[0], slo_ms, context
            )

        blocks, results = self._both(measure)
        if self._any_void(blocks, results):
            return False
        for arm in ARMS:
            recorded.blocks[arm].append(blocks[arm])
            recorded.results[arm].append(results[arm])
        return True

    def _both(self, measure: MeasureBlock) -> tuple[dict[Arm, Block], dict[Arm, LoadResult]]:
        """Measure one block on each arm, in random order."""
        self._pairs += 1
        blocks: dict[Arm, Block] = {}
        results: dict[Arm, LoadResult] = {}
        for position, arm in enumerate(self._order_of_arms(), 1):
            try:
                blocks[arm], results[arm] = measure(self._arms[arm], self._context(arm, position))
            except ToolFailed as error:
                if arm == "candidate" and _has_died(self._arms[arm]):
                    raise DoesNotServe(error.message, reason="died_under_load") from error
                raise
            self._bench.on_block(blocks[arm])
        return blocks, results

    def _any_void(self, blocks: dict[Arm, Block], results: dict[Arm, LoadResult]) -> bool:
        """Count a void pair; Inconclusive when there are too many.

        Only what lies with the machine is measured again. What lies with an arm (errors, short
        outputs) would come back: it ends the trial for a candidate, and the run for a baseline.
        """
        reasons = [block.void for block in blocks.values() if block.void]
        if not reasons:
            return False
        for result in results.values():
            result.discard()
        _check_arm_faults(blocks)
        self._void += 1
        self._bench.events.note(f"a pair is void and is measured again: {reasons[0]}")
        if self._void > MAX_VOID:
            raise Inconclusive(
                f"{self._void} pairs of one launch were void; the last reason: {reasons[0]}",
                hint="run on a quieter machine, or pin the server with server.cpus",
            )
        return True


def _has_died(served: Served) -> bool:
    """Whether a process of the deployment has ended or was stopped."""
    try:
        served.alive()
    except ToolFailed:
        return True
    return False


def _check_arm_faults(blocks: dict[Arm, Block]) -> None:
    """Raise where a void block is its arm's own fault."""
    for arm in ARMS:
        block = blocks[arm]
        if block.void is None or block.void in ENVIRONMENT:
            continue
        told = f"{block.errors} of {block.requests} requests failed: {block.void}"
        if arm == "baseline":
            raise ToolFailed(f"the baseline broke under load: {told}")
        raise DoesNotServe(told, reason=f"{block.void}_under_load")


def _ratios(blocks: dict[Arm, Block]) -> Pair:
    """Return candidate-over-baseline throughput and baseline-over-candidate CPU per request."""
    base, cand = blocks["baseline"], blocks["candidate"]
    cpu = {arm: sum(block.cpu_s.values()) / block.completed for arm, block in blocks.items()}
    return Pair(
        launch=base.launch,
        pair=base.pair,
        throughput_ratio=cand.rate / base.rate,
        cpu_ratio=cpu["baseline"] / cpu["candidate"],
    )
