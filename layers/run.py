"""The engine's entry points: run, plan and measure one stack. Wires; decides nothing."""

from __future__ import annotations

import errno
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from layers.agents.opening import open_proposers
from layers.base import Hypothesis, Layer, LayerName
from layers.errors import InvalidInput, Location, Missing, RunStopped, ToolFailed
from layers.events import Events
from layers.evidence import (
    Block,
    Look,
    MeasureReport,
    Noise,
    PlanReport,
    RankedHypothesis,
    RunReport,
)
from layers.loop import duration, instruments, learning, report, resume
from layers.loop.instruments import Opener
from layers.loop.sampling import rank
from layers.loop.stations import Course, ProposersOpener
from layers.manifest import MANIFEST_PATH, Manifest
from layers.measure import stats
from layers.record import environment_record, lock, results_folder
from layers.record.answers import GOES_ON
from layers.record.journal import JOURNAL_FILE, Entry, Journal
from layers.registry import LAYERS
from layers.repository.stack import Stack
from layers.session import RunOptions, open_session, profile_record, settled
from layers.trial import total
from layers.trial.calibrate import calibrate
from layers.trial.trial import hypothesis_record

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO)

__all__ = ["RunOptions", "measure", "plan", "run"]


def run(
    path: Path,
    options: RunOptions,
    events: Events,
    registry: Mapping[LayerName, Layer] = LAYERS,
    opener: Opener | None = None,
    proposers: ProposersOpener = open_proposers,
) -> RunReport:
    """Run the loop on the stack at `path` up to its pull requests; return the report.

    With `options.resume` it goes on with the unfinished run in `options.out`, and begins a new one
    where there is none. Of a finished one it returns the report, where that is what a new one
    would begin with; else a new one begins. `opener` sets up what measures: real servers by
    default; `proposers` those of `options.proposers` that are no rules of ours.

    Raises InvalidInput, Missing, Inconclusive or ToolFailed; the repository is then as it was, but
    for branches of candidates that were accepted before.
    """
    started = time.monotonic()
    if options.resume and (done := results_folder.finished(options.out)):
        differing = _since_finished(path, options, done)
        if not differing:
            events.note(f"the run in {options.out} finished earlier, {done[-1].at}: nothing to do")
            return report.fold(done)
        events.note(f"the run in {options.out} finished earlier, and {differing}: a new one begins")
        options = replace(options, resume=False)
    opened: list[Journal] = []  # once the stack is known to be good: bad input leaves no trace

    def on_block(block: Block) -> None:
        opened[0].append("block", block)

    def on_look(look: Look) -> None:
        if look.decision in GOES_ON:  # else the verdict has it: see `layers.loop.resume`
            opened[0].append("look", look)

    open_instruments = opener or instruments.open_live
    with (
        _disk_told(),
        lock.repository(path, options.out),
        open_instruments(path, options, events, on_block, on_look) as taken,
    ):
        layers = _layers(taken.stack.manifest, options, registry)
        allowed = _allowed(taken.stack.manifest, options, layers)
        _check_budget(taken.stack.manifest, options)
        journal = _journal(taken.out / JOURNAL_FILE, options)
        opened.append(journal)
        try:
            course = Course(
                taken,
                options,
                journal,
                events,
                registry,
                layers,
                allowed,
                started,
                proposers=proposers,
            )
            return course.report()
        except BaseException as error:
            if _without_trace(error, journal):
                journal.path.unlink(missing_ok=True)
            raise
        finally:
            journal.close()


@dataclass(frozen=True)
class _Looked:
    """A stack that is only looked at: what reading its cards needs."""

    stack: Stack
    out: Path


def _since_finished(path: Path, options: RunOptions, done: Sequence[Entry]) -> str:
    """Say what a new run would not have in common with a finished one; empty for nothing.

    Raises InvalidInput for a stack that cannot be opened, or cards that cannot be read.
    """
    head = resume.head_of(done)
    if head is None:
        return "is of another version of fvec"
    with (
        lock.repository(path, options.out),  # removes what its last process left
        Stack.open(path) as stack,
        tempfile.TemporaryDirectory(prefix="fvec-cards-") as folder,
    ):
        try:
            looked = _Looked(stack, Path(folder))
            known = learning.cards(looked, options.cookbook, head.knowledge_tip)
        except ToolFailed as error:
            return f"its cards are gone: {error.message}"
        cpu = environment_record.processor()
        return "; ".join(resume.since(head, stack, options, known, cpu))


def _without_trace(error: BaseException, journal: Journal) -> bool:
    """Say whether a run that ended by `error` has nothing worth keeping, or going on with."""
    if not journal.entries:
        return True
    calibrated = any(entry.kind == "calibration" for entry in journal.entries)
    # The running baseline showed that the input is bad.
    bad_input = isinstance(error, (InvalidInput, Missing)) and not isinstance(error, RunStopped)
    return bad_input and not calibrated


@contextmanager
def _disk_told() -> Iterator[None]:
    """Say what a full or read-only disk means for a run, wherever it shows."""
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK:
            raise
        raise ToolFailed(
            f"{error.filename or 'a file'} cannot be written: {error.strerror}",
            hint="when that is mended, `fvec run --resume` goes on from here",
        ) from error


def _journal(path: Path, options: RunOptions) -> Journal:
    """Return the journal of a new run, or of the one to go on with."""
    return Journal.reopen(path) if options.resume and path.exists() else Journal(path)


def plan(path: Path, options: RunOptions, events: Events) -> PlanReport:
    """Profile the stack and rank what the cards suggest; changes nothing."""
    options = replace(options, out=options.out / "plan")  # beside a run's results, not in them
    with (
        lock.repository(path, options.out),
        open_session(path, options, events, _ignored) as session,
    ):
        cards = learning.cards(session, options.cookbook, learning.knowledge_tip(session.stack))
        events.phase("profile", session.view.commit[:12])
        with settled(session) as (sized, deployment):
            profiled = sized.floor_first(deployment, session.view, "plan")
        ranked: list[RankedHypothesis] = []
        layers = _layers(session.stack.manifest, options, LAYERS)
        for layer in () if profiled.near_floor else layers:  # as the loop: nothing is to be gained
            spots = layer.profile(profiled, session.view)
            found = layer.diagnose(spots, session.view, cards.for_layer(layer.name))
            weighed = learning.weigh(cards, session.ground(), found)
            floor = stats.unmeasured_noise().floor_pct / 100
            worth, skipped = rank(weighed.hypotheses, floor, answered=weighed.answered)
            ranked += [_ranked(h, None) for h in worth]
            ranked += [_ranked(s.hypothesis, s.reason) for s in skipped]
        ranked.sort(key=lambda row: (row.skip is not None, -row.hypothesis.score))
        return PlanReport(
            stack=session.record(),
            environment=session.environment,
            profile=profile_record(profiled, session.out),
            hypotheses=ranked,
        )


def measure(path: Path, options: RunOptions, events: Events) -> MeasureReport:
    """Measure what the unmodified stack differs by from itself, and what gain that resolves."""
    options = replace(options, out=options.out / "measure")
    blocks: list[Block] = []
    with (
        lock.repository(path, options.out),
        open_session(path, options, events, blocks.append) as session,
    ):
        calibration = calibrate(session)
        sized = calibration.session
        totals = total.measure_total(sized.bench, sized.view, sized.view, instruments.TOTAL_BUDGET)
        look_plan = stats.LookPlan(candidates=sized.stack.manifest.budget.candidates)
        return MeasureReport(
            stack=sized.record(),
            environment=sized.environment,
            noise=Noise(work=calibration.work, sustained=totals.sustained, tail=totals.tail),
            resolvable=stats.resolvable(calibration.work, look_plan, calibration.launch_s),
            blocks=blocks,
        )


def _ranked(hypothesis: Hypothesis, skip: str | None) -> RankedHypothesis:
    return RankedHypothesis(
        layer=hypothesis.layer,
        card=hypothesis.card,
        hypothesis=hypothesis_record(hypothesis),
        skip=skip,
    )


def _layers(
    manifest: Manifest, options: RunOptions, registry: Mapping[LayerName, Layer]
) -> list[Layer]:
    """Return the layers of this run: the manifest's, narrowed by the command line."""
    wanted = [n for n in manifest.layers if options.layers is None or n in options.layers]
    absent = [name for name in wanted if name not in registry]
    if absent or not wanted:
        names = ", ".join(name.value for name in absent or options.layers or ())
        raise InvalidInput(
            f"no such layer in this version, or not allowed by the manifest: {names}",
            hint=f"layers: {', '.join(name.value for name in registry)}; see `layers` in {MANIFEST_PATH}",
        )
    return [registry[name] for name in wanted]


def _allowed(manifest: Manifest, options: RunOptions, layers: Sequence[Layer]) -> int:
    """Return how many candidates this run may try: all of the manifest's, or its shard's share."""
    candidates = manifest.budget.candidates
    if options.shard is None:
        return candidates
    own = [layer.name for layer in layers]
    allowed = options.shard.allowance(candidates, manifest.layers, own)
    if not allowed:
        raise InvalidInput(
            f"shard {options.shard} has no candidate to try: budget.candidates is {candidates}, for "
            f"{options.shard.count} shards of each of the manifest's layers",
            at=Location(Path(MANIFEST_PATH)),
            hint="raise budget.candidates, or take fewer shards",
        )
    return allowed


def _check_budget(manifest: Manifest, options: RunOptions) -> None:
    """Refuse a budget that is too small for any run, before anything is measured."""
    at = Location(Path(MANIFEST_PATH)) if options.minutes is None else None
    minutes = options.minutes or manifest.budget.minutes
    duration.check(minutes, instruments.TOTAL_BUDGET, at)


def _ignored(_block: Block) -> None:
    """Take a block that no one keeps."""
