"""The engine's entry points: run, plan and measure one stack. Wires; decides nothing."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from knowledge.cards import CookbookCard
from layers import git, learning, report, total
from layers.base import Candidate, Edit, Hypothesis, Layer, LayerName, Profile, StackView
from layers.calibrate import Calibration, calibrate
from layers.errors import FvecError, InvalidInput, Missing
from layers.events import Events
from layers.evidence import (
    Block,
    EvidenceFile,
    Iteration,
    KnowledgeRecord,
    MeasureReport,
    Noise,
    NoiseFloor,
    PlanReport,
    PullRequestRecord,
    RankedHypothesis,
    RunReport,
    Verdict,
)
from layers.journal import JOURNAL_FILE, Journal
from layers.loop import LoopState, run_loop
from layers.manifest import MANIFEST_PATH, Manifest
from layers.measure import stats
from layers.measure.sustained import Budget
from layers.publishing import Publisher
from layers.registry import LAYERS
from layers.sampling import Past, rank
from layers.session import RunOptions, Session, open_session, profile_record, settled
from layers.trial import hypothesis_record
from layers.verify import Verifier
from layers.wiring import verifier_of

__all__ = ["RunOptions", "measure", "plan", "run"]

# A window starts with empty queues, so it must be long beside the SLO.
TOTAL_BUDGET = Budget(windows=10, window_s=8.0)
RESERVED_S = 330.0  # what the total and the publishing take at the end
CANDIDATE_S = 150.0  # what one accepted candidate takes


def run(
    path: Path,
    options: RunOptions,
    events: Events,
    registry: Mapping[LayerName, Layer] = LAYERS,
) -> RunReport:
    """Run the loop on the stack at `path` up to its pull requests; return the report.

    Raises InvalidInput, Missing, Inconclusive or ToolFailed; the repository is then as it was, but
    for branches of candidates that were accepted before.
    """
    started = time.monotonic()
    opened: list[Journal] = []  # once the stack is known to be good: bad input leaves no trace

    def on_block(block: Block) -> None:
        opened[0].append("block", block)

    with open_session(path, options, events, on_block, afresh=True) as session, ExitStack() as undo:
        opened.append(Journal(session.out / JOURNAL_FILE))
        undo.callback(opened[0].close)
        try:
            return _Run(session, options, opened[0], started, registry).report()
        except (InvalidInput, Missing):
            if not any(entry.kind == "noise" for entry in opened[0].entries):
                opened[0].path.unlink()  # the running baseline showed it: still no trace
            raise


def plan(path: Path, options: RunOptions, events: Events) -> PlanReport:
    """Profile the stack and rank what the cards suggest; changes nothing."""
    options = replace(options, out=options.out / "plan")  # beside a run's results, not in them
    with open_session(path, options, events, _ignored) as session:
        cards = learning.cards(session, options.cookbook)
        events.phase("profile", session.view.commit[:12])
        with settled(session) as (sized, deployment):
            profiled = sized.profile_running(deployment, session.view, "plan")
        refuted = learning.refuted_by(cards, session.ground())
        ranked: list[RankedHypothesis] = []
        for layer in _layers(session.stack.manifest, options, LAYERS):
            spots = layer.profile(profiled, session.view)
            found = layer.diagnose(spots, session.view, cards.for_layer(layer.name))
            worth, skipped = rank(found, stats.unmeasured_noise().floor_pct / 100, refuted=refuted)
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
    with open_session(path, options, events, blocks.append) as session:
        calibration = calibrate(session)
        sized = calibration.session
        totals = total.measure_total(sized.bench, sized.view, sized.view, TOTAL_BUDGET)
        look_plan = stats.LookPlan(candidates=sized.stack.manifest.budget.candidates)
        return MeasureReport(
            stack=sized.record(),
            environment=sized.environment,
            noise=Noise(work=calibration.work, sustained=totals.sustained, tail=totals.tail),
            resolvable=stats.resolvable(calibration.work, look_plan, calibration.launch_s),
            blocks=blocks,
        )


@dataclass
class _Run:
    """One run: the stations of the loop over a session, with its journal."""

    session: Session
    options: RunOptions
    journal: Journal
    started: float
    registry: Mapping[LayerName, Layer]
    calibration: Calibration | None = None
    verifier: Verifier | None = None
    candidates: dict[int, Candidate] = field(default_factory=dict)
    earlier: dict[str, str] = field(default_factory=dict)  # tips of branches of other runs
    spans: dict[int, slice] = field(default_factory=dict)  # of the journal, by iteration

    def __post_init__(self) -> None:
        self.known = learning.cards(self.session, self.options.cookbook)
        self.refuted = learning.refuted_by(self.known, self.session.ground())
        self.events = self.session.bench.events

    def report(self) -> RunReport:
        """Run everything in order; the report is folded from the journal."""
        manifest = self.session.stack.manifest
        self.journal.append("run_started", self._head())
        layers = _layers(manifest, self.options, self.registry)
        state, conclusion = run_loop(
            self,
            layers,
            self.session.view,
            rng=random.Random(self.options.seed),
            candidates=manifest.budget.candidates,
        )
        refusals = [
            line for layer in layers for line in layer.refusals(state.base, self.cards(layer.name))
        ]
        self.journal.append("not_tried", [*state.not_tried, *refusals])
        accepted = [i for i in state.iterations if i.verdict is Verdict.ACCEPTED]
        if accepted:
            conclusion += self._total(state)
        pulls = self._publish(state, accepted)
        self._refine(state)
        conclusion = f"{_opened(pulls)}; {conclusion}"
        self.journal.append(
            "run_finished", {"conclusion": conclusion, "wall_s": time.monotonic() - self.started}
        )
        self.events.note(conclusion)
        return report.fold(self.journal.entries)

    # --- stations of the loop ---------------------------------------------------------------

    def calibrate(self) -> Noise:
        """Measure the noise floor; what follows is held against it."""
        calibration = calibrate(self.session)
        self.calibration, self.session = calibration, calibration.session
        manifest = self.session.stack.manifest
        noise = Noise(work=calibration.work)
        self.journal.append("noise", noise)
        self.verifier = verifier_of(
            calibration,
            stats.LookPlan(candidates=manifest.budget.candidates),
            on_look=lambda look: self.journal.append("look", look),
        )
        return noise

    def profile(self, base: StackView) -> Profile:
        """Profile the base; the first profile was taken during calibration."""
        if self.calibration is not None and base.commit == self.session.view.commit:
            profiled = self.calibration.profile
        else:
            self.events.phase("profile", base.commit[:12])
            profiled = self.session.profile(base, base.commit[:12])
        self.journal.append("profile", profile_record(profiled, self.session.out))
        return profiled

    def cards(self, layer: LayerName) -> Sequence[CookbookCard]:
        """Return the cards of one layer."""
        return self.known.for_layer(layer)

    def past(self) -> Sequence[Past]:
        """Return what earlier runs found, by layer."""
        return learning.past(self.known)

    def commit(self, base: StackView, hypothesis: Hypothesis, edit: Edit) -> Candidate:
        """Commit an edit on a branch of its own, in a worktree of its own."""
        model = re.sub(r"[^A-Za-z0-9_-]+", "-", hypothesis.model)  # not all that git refuses
        branch = f"fvec/{hypothesis.layer}/{hypothesis.card}-{model}"
        earlier = learning.tip_of(self.session.stack, branch)
        commit, patch, worktree = self.session.stack.commit_edit(
            base.commit, branch, edit, self.session.out / "worktrees"
        )
        if earlier is not None:
            self.earlier[branch] = earlier
        return Candidate(hypothesis, edit, branch, base.commit, commit, worktree, patch)

    def verify(self, candidate: Candidate, layer: Layer, base: StackView, n: int) -> Iteration:
        """Have a candidate judged, and journal the verdict."""
        if self.verifier is None:
            raise RuntimeError("verify before calibrate")
        began = len(self.journal.entries)
        self.candidates[n] = candidate
        self.journal.append(
            "candidate",
            {
                "n": n,
                "branch": candidate.branch,
                "commit": candidate.commit,
                "patch": candidate.patch,
            },
        )
        try:
            iteration = self.verifier.verify(candidate, layer, base, n)
        except BaseException:
            self._withdraw(candidate)
            raise
        self.journal.append("iteration", iteration)
        self.spans[n] = slice(began, len(self.journal.entries))
        self.events.note(f"{iteration.hypothesis.title}: {iteration.verdict} ({iteration.reason})")
        if iteration.verdict is not Verdict.ACCEPTED:
            self._withdraw(candidate)
        return iteration

    def _withdraw(self, candidate: Candidate) -> None:
        """Remove the candidate's branch, or put it back: it may be of an open pull request."""
        stack, earlier = self.session.stack, self.earlier.get(candidate.branch)
        stack.remove_worktree(candidate.worktree)
        if earlier is None:
            stack.drop_branch(candidate.branch, candidate.commit)
        elif earlier != candidate.commit:
            git.set_branch(stack.root, candidate.branch, earlier)

    def adopt(self, candidate: Candidate) -> StackView:
        """Return the stack with the candidate in it, for later ones to build on."""
        return self.session.stack.view(candidate.worktree, self.session.env)

    def record(self, kind: str, text: str) -> None:
        """Journal one line for the report."""
        self.journal.append(kind, text)

    def time_left(self) -> bool:
        """Say whether another candidate, the total and the publishing fit into the budget."""
        minutes = self.options.minutes or self.session.stack.manifest.budget.minutes
        spent_s = time.monotonic() - self.started
        return spent_s + CANDIDATE_S + RESERVED_S < minutes * 60

    # --- after the loop -----------------------------------------------------------------------

    def _total(self, state: LoopState) -> str:
        """Measure one start against one end; return what the conclusion says if that fails."""
        try:
            totals = total.measure_total(
                self.session.bench, self.session.view, state.base, TOTAL_BUDGET
            )
        except FvecError as error:
            return f"; the total could not be measured: {error.message.partition(chr(10))[0]}"
        self.journal.append("total", totals.total)
        work = self._noise_of_work()
        self.journal.append("noise", Noise(work=work, sustained=totals.sustained, tail=totals.tail))
        return ""

    def _publish(self, state: LoopState, accepted: Sequence[Iteration]) -> list[PullRequestRecord]:
        """Open one pull request per accepted candidate, each on top of the one before."""
        if not accepted:
            return []
        self.events.phase("publish", f"{len(accepted)} pull requests")
        publisher: Publisher = self.options.forge(self.options.out)
        base, records = learning.base_branch(self.session.stack), []
        for iteration in accepted:
            candidate = self.candidates[iteration.n]
            record = publisher.publish(
                self._evidence(iteration, state), candidate.patch, base, candidate.branch
            )
            self.journal.append("pull_request", record)
            records.append(record)
            base = candidate.branch
        return records

    def _evidence(self, iteration: Iteration, state: LoopState) -> EvidenceFile:
        folded = report.fold(self.journal.entries)
        return EvidenceFile(
            run_id=self.session.run_id,
            stack=self.session.record(),
            environment=self.session.environment,
            seed=self.options.seed,
            profile=report.profile_before(self.journal.entries, self.spans[iteration.n].start),
            noise=folded.noise or Noise(work=self._noise_of_work()),
            iteration=iteration,
            others=[other for other in state.iterations if other.n != iteration.n],
            blocks=report.blocks(self.journal.entries[self.spans[iteration.n]]),
            reproduce=learning.reproduce(self.options),
        )

    def _refine(self, state: LoopState) -> None:
        """Merge what was learned into the cards, on the knowledge branch."""
        ground = self.session.ground()
        findings = learning.findings(state.iterations, self.registry, ground)
        record = KnowledgeRecord(branch=None, cards_changed=[])
        if findings:
            self.events.phase("refine", f"{len(findings)} cards")
            try:
                record = learning.refine(self.session.stack, self.known, findings, self.session.out)
            except FvecError as error:  # the pull requests are open: the run is not lost for it
                self.events.note(f"the cards could not be refined: {error.message}")
        self.journal.append("knowledge", record)

    def _noise_of_work(self) -> NoiseFloor:
        return self.calibration.work if self.calibration else stats.unmeasured_noise()

    def _head(self) -> dict[str, object]:
        return {
            "run_id": self.session.run_id,
            "started_at": self.session.started_at,
            "seed": self.options.seed,
            "stack": self.session.record().model_dump(mode="json"),
            "environment": self.session.environment.model_dump(mode="json"),
        }


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


def _ignored(_block: Block) -> None:
    """Take a block that no one keeps."""


def _opened(pulls: Sequence[PullRequestRecord]) -> str:
    if not pulls:
        return "no pull request"
    return f"{len(pulls)} pull request{'s' if len(pulls) > 1 else ''}"
