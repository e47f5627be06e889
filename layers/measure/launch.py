"""A launch: both arms started afresh, then measured beside each other in paired blocks.

Whatever a start decides once (memory layout, thread placement, caches) shifts every block of that
launch together, so the launch is the unit of the statistics and pairs only refine it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from layers.base import StackView
from layers.errors import FvecError, Inconclusive, InvalidInput, ToolFailed
from layers.events import Events
from layers.evidence import Block, Pair
from layers.manifest import Manifest
from layers.measure import bound, conduct, counters, logged, tally
from layers.measure.blocks import BlockContext, rate_block
from layers.measure.ceilings import Ceilings, above, near_floor
from layers.measure.checks import Limits
from layers.measure.conduct import Fault
from layers.measure.fresh import Fresh, RequestSet
from layers.measure.ledger import Ledger
from layers.measure.load import LoadGenerator, LoadResult
from layers.sandbox.box import LimitReached, Sandbox
from layers.traffic.envelope import addressed
from layers.traffic.mutations import Mutator
from layers.triton.client import ModelCounts
from layers.triton.endpoint import TakenOver
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
    sandbox: Sandbox
    load: LoadGenerator
    manifest: Manifest
    log_dir: Path
    rng: np.random.Generator
    block_requests: int
    events: Events
    on_block: Callable[[Block], None]
    # All three are found on the unmodified stack, by `layers.trial.calibrate`.
    fresh: Fresh | None = None  # None: blocks send the recording itself
    ceilings: Ceilings | None = None
    mutator: Mutator | None = None  # None: nobody has asked how the stack takes changed requests
    start_seed: int = 0  # of the order in which the arms of launches are started
    replay: bool = False  # `rng` follows from a seed that was given, to draw the same again

    def reseed(self) -> str:
        """Begin draws that nobody can foresee, unless a seed was given; return their own, for the evidence."""
        seed = int(self.rng.integers(1 << 62)) if self.replay else secrets.randbits(128)
        self.rng.bit_generator.state = np.random.default_rng(seed).bit_generator.state
        return f"{seed:x}"

    def draw(self) -> NDArray[np.int64]:
        """Return the requests of one pair, int64[block_requests], drawn without replacement."""
        known = len(self.load.traffic.requests)
        return self.rng.permutation(known)[: self.block_requests].astype(np.int64)

    @contextmanager
    def sending(
        self, order: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], RequestSet | None]]:
        """Yield what a block sends for `order`: new copies of those requests, and their order.

        Raises ToolFailed where the file that holds them was changed meanwhile.
        """
        if self.fresh is None:
            yield order, None
            return
        with self.fresh.draw(order) as requests:
            yield np.arange(len(order), dtype=np.int64), requests

    def deploy(self, view: StackView, name: str, *, probed: bool = True) -> Served:
        """Return a deployment of `view`, not yet started; `probed`: by a real request.

        With `server.address` it is the user's own running server, whatever the view: such a
        server can be planned for and measured against itself, and `layers.run.run` refuses it.
        """
        ids = np.random.default_rng(secrets.randbits(128))
        probe = addressed(self.load.traffic.requests[0], ids) if probed else None
        if self.manifest.server.address:
            return RemoteDeployment(self.manifest.server.address, probe=probe)
        return Deployment(
            view,
            self.env,
            sandbox=self.sandbox,
            cpus=self.manifest.server.cpus,
            log_dir=self.log_dir / name,
            start_timeout_s=self.manifest.server.start_timeout_s,
            probe=probe,
        )

    def warm(self, deployment: Served) -> str | None:
        """Serve a few requests that nobody measures; return what went wrong, None if nothing."""
        order = self.draw()[:WARM_REQUESTS]
        with self.sending(order) as (sent, requests):
            warmed = self.load.closed(
                deployment.grpc, sent, self.manifest.traffic.in_flight, requests=requests
            )
        warmed.discard()
        if not warmed.errors:
            return None
        return (
            f"{warmed.errors} of {len(order)} first requests failed: {'; '.join(warmed.messages)}"
        )


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


@dataclass(slots=True)
class _Both:
    """One block of each arm over the same requests, and what the servers counted meanwhile."""

    blocks: dict[Arm, Block] = field(default_factory=dict)
    results: dict[Arm, LoadResult] = field(default_factory=dict)
    ran: dict[Arm, dict[str, ModelCounts]] = field(default_factory=dict)


class Launch:
    """Both arms of one launch, as a context manager. The same view twice is an A/A launch."""

    def __init__(
        self,
        bench: Bench,
        number: int,
        baseline: StackView,
        candidate: StackView,
        label: str,
        *,
        warnings: list[str] | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        """Prepare launch `number` (from 1); `label` names its log folders.

        `warnings` takes lines about what was measured that a reviewer should know; `ledger` takes
        what the arms took and which pairs were void.
        """
        self.number = number
        self._bench = bench
        self._views = {"baseline": baseline, "candidate": candidate}
        self._label = label
        self._undo = ExitStack()
        self._arms: dict[Arm, Served] = {}
        self._pairs = 0
        self._void = 0
        self._measured: list[Block] = []
        self._warnings = warnings if warnings is not None else []
        self._ledger = ledger if ledger is not None else Ledger()

    def __enter__(self) -> Self:
        """Start and warm both arms. DoesNotServe when only the candidate fails to."""
        with ExitStack() as undo:
            for arm in self._order_of_starts():
                name = f"{self._label}-{self.number}-{arm}"
                deployment = self._bench.deploy(self._views[arm], name)
                self._arms[arm] = self._start(undo, arm, deployment)
            for arm, own in self._own().items():
                self._ledger.began(arm, own.ready_s, own.memory())
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop both arms, together: each takes seconds to leave."""
        for arm, own in self._own().items():
            self._ledger.ended(arm, own.memory())
        for deployment in self._arms.values():
            deployment.begin_stop()
        self._undo.close()

    def arm(self, arm: Arm) -> Served:
        """Return the running deployment of one arm."""
        return self._arms[arm]

    @contextmanager
    def blaming(self, arm: Arm) -> Iterator[None]:
        """Blame the candidate for what breaks while `arm` is used, where it runs no longer.

        Raises DoesNotServe then, else what broke.
        """
        try:
            yield
        except ToolFailed as error:
            self._blame_death(arm, error)
            raise

    @contextmanager
    def alone(self, arm: Arm) -> Iterator[bool | None]:
        """Hold the other arm still while this one is asked; yields whether that is possible here.

        None where nothing of ours runs beside it. Raises ToolFailed where it does not stand still.
        """
        other = self._own().get(_other(arm))
        if other is None:
            yield None
            return
        with other.held_still() as held:
            self._ledger.held = self._ledger.held and held
            yield held

    def pairs(self, count: int) -> Iterator[MeasuredPair]:
        """Measure `count` pairs of work blocks. Inconclusive when too many blocks are void.

        Both arms are held still while the caller looks at a pair.
        """
        done = 0
        while done < count:
            measured = self._pair(self._bench.draw())
            if measured is None:
                continue
            done += 1
            with self._all_still():
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

    @contextmanager
    def _all_still(self) -> Iterator[None]:
        """Hold both arms still while nothing is asked of them: they could work ahead."""
        with ExitStack() as still:
            for own in self._own().values():
                still.enter_context(own.held_still())
            yield

    def _own(self) -> dict[Arm, Deployment]:
        """Return the arms that are servers of our own."""
        arms = self._arms.items()
        return {arm: served for arm, served in arms if isinstance(served, Deployment)}

    def _start(self, undo: ExitStack, arm: Arm, deployment: Served) -> Served:
        try:
            undo.enter_context(deployment)
        except (InvalidInput, ToolFailed) as error:
            if arm == "baseline":
                raise
            self._check_machine(error)
            raise DoesNotServe(error.message, _limit(error) or "does_not_serve") from error
        failed = self._bench.warm(deployment)
        if failed and arm == "baseline":
            raise ToolFailed(f"the baseline broke while it was warmed: {failed}")
        if failed:
            raise DoesNotServe(failed, reason="errors_while_warming")
        return deployment

    def _check_machine(self, failure: FvecError) -> None:
        """Raise ToolFailed where the unmodified stack cannot be started now either."""
        control = self._bench.deploy(
            self._views["baseline"], f"{self._label}-{self.number}-control"
        )
        try:
            with control:
                return
        except FvecError as error:
            raise ToolFailed(f"no arm can be started any more: {error.message}") from failure

    def _order_of_starts(self) -> Sequence[Arm]:
        """Return which arm is started first: drawn in odd launches, the other one in even ones.

        Measured: the server that is started second runs 1 to 2 % faster. Balanced, it evens out.
        """
        pair_of_launches = (self.number + 1) // 2
        seeds = [self._bench.start_seed, crc32(self._label.encode()), pair_of_launches]
        first_in_odd = int(np.random.default_rng(seeds).integers(2))
        return ARMS if (self.number + first_in_odd) % 2 else ARMS[::-1]

    def _order_of_arms(self) -> Sequence[Arm]:
        return ARMS if self._bench.rng.random() < 0.5 else ARMS[::-1]

    def _context(
        self, arm: Arm, position: int, requests: RequestSet | None, limits: Limits
    ) -> BlockContext:
        return BlockContext(
            arm=arm,
            launch=self.number,
            pair=self._pairs,
            position=1 if position == 1 else 2,
            limits=limits,
            requests=requests,
            idle=_beside(self._arms[_other(arm)]),
        )

    def _pair(self, order: NDArray[np.int64]) -> MeasuredPair | None:
        """Measure one pair; None if one of its blocks is void."""
        bench = self._bench
        with ExitStack() as undo:
            with self._all_still():
                sent, requests = undo.enter_context(bench.sending(order))

            def measure(served: Served, context: BlockContext) -> tuple[Block, LoadResult]:
                in_flight = bench.manifest.traffic.in_flight
                return bound.work(served, bench.load, sent, in_flight, context)

            both = self._both(measure, requests, Limits())
        if self._any_void(both.blocks, both.results):
            return None
        self._refuse_impossible(both)
        self._ledger.kept.append(both.blocks)
        pair = bound.ratios(both.blocks)
        if pair.at_least and bound.AT_LEAST not in self._warnings:
            self._warnings.append(bound.AT_LEAST)
        return MeasuredPair(pair, both.blocks, both.results)

    def _segment(
        self, recorded: Recorded, order: NDArray[np.int64], arrivals_s: NDArray[np.float64]
    ) -> bool:
        """Measure one segment on both arms; False, and nothing kept, if a block is void."""
        bench = self._bench
        with ExitStack() as undo:
            with self._all_still():
                sent, requests = undo.enter_context(bench.sending(order))

            def measure(served: Served, context: BlockContext) -> tuple[Block, LoadResult]:
                slo_ms = bench.manifest.slo.p99_ms
                since_s = arrivals_s - arrivals_s[0]
                return rate_block(served, bench.load, sent, since_s, slo_ms, context)

            both = self._both(measure, requests, RECORDED_LIMITS)
        if self._any_void(both.blocks, both.results):
            return False
        self._refuse_impossible(both)
        for arm in ARMS:
            recorded.blocks[arm].append(both.blocks[arm])
            recorded.results[arm].append(both.results[arm])
        return True

    def _both(self, measure: MeasureBlock, requests: RequestSet | None, limits: Limits) -> _Both:
        """Measure one block on each arm, in random order, each with the other one held still."""
        self._pairs += 1
        both = _Both()
        for position, arm in enumerate(self._order_of_arms(), 1):
            served = self._arms[arm]
            context = self._context(arm, position, requests, limits)
            with self.blaming(arm), self.alone(arm) as held:
                wrote = logged.size(served)
                before = tally.counts(served)
                self._check_cpus()
                block, both.results[arm] = measure(served, context)
                self._check_cpus()
                ran = tally.since(served, before)
            both.ran[arm] = ran
            rows = {name: counts.inferences for name, counts in sorted(ran.items())}
            told = logged.since(served, wrote)
            seen = {"inferences": rows, "idle_frozen": held, **told}
            both.blocks[arm] = block.model_copy(update=seen)
            self._bench.on_block(both.blocks[arm])
            self._check_conduct(both.blocks[arm])
        return both

    def _blame_death(self, measured: Arm, error: ToolFailed) -> None:
        """Raise DoesNotServe where a block broke because the candidate runs no longer."""
        death = _death(self._arms["candidate"])
        if death is None or (measured == "baseline" and _death(self._arms["baseline"])):
            return
        reason = _limit(death) or _limit(error) or "died_under_load"
        raise DoesNotServe(death.message, reason) from error

    def _check_cpus(self) -> None:
        """End what may run where it was not pinned to, on either arm, measured or idle."""
        for arm in ARMS:
            beside = _beside(self._arms[arm])
            if beside is not None and (strayed := beside.strayed()):
                _blame(Fault(arm, "leaves_its_cpus", f"left its CPUs: {strayed}"))

    def _check_conduct(self, block: Block) -> None:
        """End what worked while it was not asked to, or beyond the CPUs that it was given."""
        self._measured.append(block)
        served = _beside(self._arms[block.arm])
        _blame(conduct.leaves_its_cpus(block, served.pinned() if served else None))
        _blame(conduct.works_while_idle(self._measured))

    def _refuse_impossible(self, both: _Both) -> None:
        """End what a block cannot have measured: models that did not run, ceilings exceeded."""
        missing = counters.not_run(both.ran["baseline"], both.ran["candidate"])
        if missing:
            raise DoesNotServe(missing.detail, reason=missing.reason)
        ceilings = self._bench.ceilings
        if ceilings is None:
            return
        facts = {arm: tally.facts_of(both.blocks[arm], both.results[arm]) for arm in ARMS}
        for arm, other in zip(ARMS, ARMS[::-1], strict=True):
            broken = above(facts[arm], ceilings, facts[other])
            if broken and arm == "baseline":
                raise ToolFailed(f"a block of the baseline cannot be true: {broken}")
            if broken:
                raise DoesNotServe(str(broken), reason="above_ceiling")
        warning = near_floor(facts["candidate"], ceilings)
        if warning and not self._warnings:
            self._warnings.append(warning)

    def _any_void(self, blocks: dict[Arm, Block], results: dict[Arm, LoadResult]) -> bool:
        """Count a void pair; Inconclusive when there are too many.

        Only what lies with the machine is measured again. What lies with an arm (errors, short
        outputs) would come back: it ends the trial for a candidate, and the run for a baseline.
        """
        void = conduct.void_arms(blocks)
        if not void:
            return False
        for result in results.values():
            result.discard()
        _blame(conduct.failed(blocks))
        self._void += 1
        dropped = conduct.dropped(blocks, void)
        self._ledger.voids.append(dropped)
        self._bench.events.note(f"a pair is void and is measured again: {dropped.reason}")
        if self._void > MAX_VOID:
            by_arm = " and ".join(f"{self._ledger.void_of(arm)} of the {arm}'s" for arm in ARMS)
            raise Inconclusive(
                f"{self._void} pairs of one launch were void; the last reason: {dropped.reason}; "
                f"void in all launches so far: {by_arm} blocks",
                hint="run on a quieter machine, or pin the server with server.cpus",
            )
        return True


def _death(served: Served) -> ToolFailed | None:
    """Return why the deployment no longer runs, None while all of it does."""
    try:
        served.alive()
    except ToolFailed as error:
        return error
    return None


def _limit(error: FvecError) -> str | None:
    """Return the reason code that an error carries: a limit of the sandbox, a socket taken over."""
    reason = "answers_in_the_servers_place"
    if isinstance(error, TakenOver):
        return reason
    return error.reason.value if isinstance(error, LimitReached) else None


def _other(arm: Arm) -> Arm:
    return "candidate" if arm == "baseline" else "baseline"


def _beside(served: Served) -> Deployment | None:
    """Return an arm of our own; a user's server is both arms at once, and nothing is beside it."""
    return None if isinstance(served, RemoteDeployment) else served


def _blame(fault: Fault | None) -> None:
    """Raise what an arm's fault calls for: a candidate's ends its trial, a baseline's the run."""
    if fault is None:
        return
    if fault.arm == "baseline":
        raise ToolFailed(f"the baseline {fault.detail}")
    raise DoesNotServe(f"the candidate {fault.detail}", reason=fault.reason)
