"""What a run asks of a live stack: the one seam between its course and what measures.

`layers.loop.stations` orders, journals and remembers; what needs a running model server is asked of
`Instruments`. `open_live` sets up the real ones. Answers are values that a journal can hold, so a
resumed run is given back to its instruments by `restore`, and needs no server to get there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from layers.base import Candidate, Ground, Layer, StackView
from layers.events import Events
from layers.evidence import Block, Environment, Iteration, Look, StackRecord
from layers.loop.proposing import Checked
from layers.loop.wiring import verifier_of
from layers.measure import stats
from layers.measure.ceilings import Ceilings
from layers.measure.launch import Bench
from layers.measure.sustained import Budget
from layers.record.answers import (
    CalibrationAnswer,
    CeilingsRecord,
    MutationsRecord,
    ProfileAnswer,
    SaltRecord,
    TakenRecord,
    TotalAnswer,
)
from layers.repository.stack import Stack
from layers.session import RunOptions, Session, open_session, profile_record
from layers.traffic.mutations import Mutator, Taken
from layers.traffic.salting import Salt, Salter
from layers.trial import total
from layers.trial.business_metric import Remembering
from layers.trial.calibrate import Calibration, calibrate
from layers.trial.verify import Verifier

# A window starts with empty queues, so it must be long beside the SLO.
TOTAL_BUDGET = Budget(windows=10, window_s=8.0)


class Instruments(Protocol):
    """One stack, and what measures it."""

    @property
    def stack(self) -> Stack:
        """The serving repository, open."""

    @property
    def view(self) -> StackView:
        """Its unmodified state: checked out and built."""

    @property
    def out(self) -> Path:
        """Where results go."""

    @property
    def environment(self) -> Environment:
        """What the run happens on."""

    @property
    def started_at(self) -> str:
        """When the run began, ISO 8601 in UTC."""

    @property
    def run_id(self) -> str:
        """Which run this is."""

    def record(self) -> StackRecord:
        """Return which serving repository this is."""

    def ground(self) -> Ground:
        """Return what the run's findings are made on."""

    def resume_as(self, run_id: str, started_at: str, life: int) -> None:
        """Go on as an earlier run; `life` counts the processes that worked on it."""

    def calibrate(self) -> CalibrationAnswer:
        """Check, profile and measure the unmodified stack."""

    def restore(self, calibration: CalibrationAnswer) -> None:
        """Take what an earlier process found out, instead of `calibrate`."""

    def profile(self, view: StackView) -> ProfileAnswer:
        """Profile a state of the stack under load."""

    def seen(self, worktree: Path) -> StackView:
        """Return what the engine may read of a worktree."""

    def build(self, view: StackView) -> None:
        """Make the files that git does not hold, in a worktree that lacks them."""

    def check(self, candidate: Candidate, base: StackView) -> Checked:
        """Hold a committed draft to what its author may know; after `calibrate` or `restore`."""

    def verify(self, candidate: Candidate, layer: Layer, base: StackView, n: int) -> Iteration:
        """Judge a candidate; to be asked after `calibrate` or `restore`."""

    def remeasure(
        self, candidate: Candidate, without: StackView, end: StackView, n: int
    ) -> Iteration:
        """Measure an accepted change again: `end`, which has it, against `without`."""

    def recheck(self, candidate: Candidate, base: StackView, n: int) -> Iteration:
        """Hold an accepted change to its class again, on another base; measure no gain."""

    def total(self, end: StackView) -> TotalAnswer:
        """Measure `end` against the unmodified stack. Raises FvecError where it cannot."""


class Opener(Protocol):
    """Sets up instruments for the time of one run."""

    def __call__(
        self,
        path: Path,
        options: RunOptions,
        events: Events,
        on_block: Callable[[Block], None],
        on_look: Callable[[Look], None],
    ) -> AbstractContextManager[Instruments]:
        """Open the stack at `path`; the callables receive what is measured, as it is measured."""


@contextmanager
def open_live(
    path: Path,
    options: RunOptions,
    events: Events,
    on_block: Callable[[Block], None],
    on_look: Callable[[Look], None],
) -> Iterator[Instruments]:
    """Yield instruments over real model servers; an `Opener`. Raises as `open_session` does."""
    with open_session(path, options, events, on_block, afresh=True) as session:
        yield Live(session, options.seed, on_look)


@dataclass
class Live:
    """Instruments over a session."""

    session: Session
    seed: int
    on_look: Callable[[Look], None]
    verifier: Verifier | None = None

    @property
    def stack(self) -> Stack:
        """The serving repository, open."""
        return self.session.stack

    @property
    def view(self) -> StackView:
        """Its unmodified state: checked out and built."""
        return self.session.view

    @property
    def out(self) -> Path:
        """Where results go."""
        return self.session.out

    @property
    def environment(self) -> Environment:
        """What the run happens on; with the machine's bandwidth once it is measured."""
        return self.session.environment

    @property
    def started_at(self) -> str:
        """When the run began, ISO 8601 in UTC."""
        return self.session.started_at

    @property
    def run_id(self) -> str:
        """Which run this is."""
        return self.session.run_id

    def record(self) -> StackRecord:
        """Return which serving repository this is."""
        return self.session.record()

    def ground(self) -> Ground:
        """Return what the run's findings are made on."""
        return self.session.ground()

    def resume_as(self, run_id: str, started_at: str, life: int) -> None:
        """Go on as an earlier run, with draws that none of its processes has made."""
        bench = self.session.bench
        if bench.replay:  # else nobody can have made the draws of this process before
            bench = replace(bench, rng=np.random.default_rng([self.seed, life]))
        self.session = replace(self.session, bench=bench, run_id=run_id, started_at=started_at)

    def calibrate(self) -> CalibrationAnswer:
        """Check, profile and measure the unmodified stack."""
        calibration = calibrate(self.session)
        self._use(calibration)
        shown = profile_record(calibration.profile, self.out)
        return _answer(calibration, ProfileAnswer.of(self.view.commit, calibration.profile, shown))

    def restore(self, calibration: CalibrationAnswer) -> None:
        """Take what an earlier process found out, instead of `calibrate`."""
        session, limits = self.session, calibration.ceilings
        bench = replace(
            session.bench,
            block_requests=calibration.block_requests,
            fresh=_fresh(session, calibration.salt),
            mutator=_mutator(session, calibration.mutations),
            ceilings=Ceilings(**limits.model_dump()) if limits else None,
        )
        self._use(
            Calibration(
                session=replace(session, bench=bench, environment=calibration.environment),
                profile=calibration.profile.profile(self.out),
                work=calibration.work,
                reproducible=frozenset(calibration.reproducible),
                launch_s=calibration.launch_s,
            )
        )

    def _use(self, calibration: Calibration) -> None:
        self.session = calibration.session
        plan = stats.LookPlan(candidates=self.stack.manifest.budget.candidates)
        self.verifier = verifier_of(calibration, plan, on_look=self.on_look)

    def profile(self, view: StackView) -> ProfileAnswer:
        """Profile a state of the stack under load."""
        self.session.bench.events.phase("profile", view.commit[:12])
        profiled = self.session.profile(view, view.commit[:12])
        return ProfileAnswer.of(view.commit, profiled, profile_record(profiled, self.out))

    def seen(self, worktree: Path) -> StackView:
        """Return what the engine may read of a worktree."""
        return self.stack.view(worktree, self.session.env)

    def build(self, view: StackView) -> None:
        """Make the files that git does not hold, in a worktree that lacks them."""
        self.stack.build(view.root, self.session.env, self.session.sandbox)

    def check(self, candidate: Candidate, base: StackView) -> Checked:
        """Hold a committed draft to what its author may know; after `calibrate` or `restore`."""
        if self.verifier is None:
            raise RuntimeError("check before calibrate")
        found = self.verifier.check(candidate, base)
        return Checked(found.gates, found.passed, found.reason, found.detail)

    def verify(self, candidate: Candidate, layer: Layer, base: StackView, n: int) -> Iteration:
        """Judge a candidate; to be asked after `calibrate` or `restore`."""
        if self.verifier is None:
            raise RuntimeError("verify before calibrate")
        return self.verifier.verify(candidate, layer, base, n)

    def remeasure(
        self, candidate: Candidate, without: StackView, end: StackView, n: int
    ) -> Iteration:
        """Measure an accepted change again: `end`, which has it, against `without`."""
        if self.verifier is None:
            raise RuntimeError("remeasure before calibrate")
        return self.verifier.remeasure(candidate, without, end, n)

    def recheck(self, candidate: Candidate, base: StackView, n: int) -> Iteration:
        """Hold an accepted change to its class again, on another base; measure no gain."""
        if self.verifier is None:
            raise RuntimeError("recheck before calibrate")
        return self.verifier.verify(candidate, None, base, n)

    def total(self, end: StackView) -> TotalAnswer:
        """Measure `end` against the unmodified stack. Raises FvecError where it cannot."""
        totals = total.measure_total(self.session.bench, self.view, end, TOTAL_BUDGET)
        return TotalAnswer(total=totals.total, sustained=totals.sustained, tail=totals.tail)


def _answer(calibration: Calibration, profiled: ProfileAnswer) -> CalibrationAnswer:
    """Return a calibration as the journal keeps it."""
    session = calibration.session
    bench: Bench = session.bench
    return CalibrationAnswer(
        work=calibration.work,
        reproducible=sorted(calibration.reproducible),
        launch_s=calibration.launch_s,
        block_requests=bench.block_requests,
        salt=SaltRecord(**asdict(bench.fresh.salt)) if bench.fresh else None,
        mutations=_mutations(bench.mutator),
        ceilings=CeilingsRecord(**asdict(bench.ceilings)) if bench.ceilings else None,
        environment=session.environment,
        profile=profiled,
    )


def _fresh(session: Session, salt: SaltRecord | None) -> Remembering | None:
    """Return what draws new requests by a salt that is known to be answered."""
    if salt is None:
        return None
    requests = session.traffic.requests
    salter = Salter(requests, Mutator(requests).candidate_axes, Salt(**salt.model_dump()))
    return Remembering(salter, session.out / "load" / "fresh")


def _mutations(mutator: Mutator | None) -> MutationsRecord | None:
    """Return how the unmodified stack takes changed requests, as the journal keeps it."""
    if mutator is None or mutator.taken is None:
        return None
    taken = [TakenRecord(**asdict(one)) for one in mutator.taken]
    return MutationsRecord(outputs=mutator.outputs, taken=taken)


def _mutator(session: Session, found: MutationsRecord | None) -> Mutator | None:
    """Return what makes changed requests, knowing how the unmodified stack takes them."""
    if found is None:
        return None
    taken = [Taken(**one.model_dump()) for one in found.taken]
    traffic = session.traffic
    return Mutator(traffic.requests, traffic.optional, found.outputs, taken)
