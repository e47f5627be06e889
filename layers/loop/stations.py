"""The stations of one run: asked of the instruments, or of the journal of an earlier process.

Each answer is journalled whole before the run goes on, each side effect before and after it;
`layers.loop.resume` says what a resumed run makes of that.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from knowledge.cards import CookbookCard
from knowledge.store import Cards
from layers.base import COOKBOOK, Candidate, Edit, Hypothesis, Layer, LayerName, Profile, StackView
from layers.errors import FvecError, RunStopped
from layers.events import Events
from layers.evidence import (
    EvidenceFile,
    Iteration,
    KnowledgeRecord,
    Noise,
    PullRequestRecord,
    RunReport,
    Verdict,
)
from layers.loop import duration, learning, report, resume
from layers.loop.authors import Authors
from layers.loop.branches import Branches
from layers.loop.chains import Chains
from layers.loop.combination import Chain, check_of, combine, published
from layers.loop.instruments import TOTAL_BUDGET, Instruments
from layers.loop.loop import TIME_SPENT, LoopState, run_loop
from layers.loop.proposing import Heard, Proposer, Situation, Written
from layers.loop.resume import Earlier
from layers.loop.sampling import Past, Weighed
from layers.loop.together import Together
from layers.record.answers import (
    FINISHED,
    RESUMED,
    STARTED,
    Budget,
    CalibrationAnswer,
    End,
    Head,
    KnowledgeIntent,
    ProfileAnswer,
    ProfileFailure,
    PullIntent,
    Resumed,
    TotalAnswer,
)
from layers.record.journal import Journal
from layers.record.publishing import Publisher
from layers.record.results_folder import LEDGER, TRANSCRIPTS
from layers.repository import git
from layers.session import RunOptions

ProposersOpener: TypeAlias = Callable[
    [Instruments, RunOptions, Cards, str | None], Sequence[Proposer]
]


def nobody(
    _instruments: Instruments, _options: RunOptions, _known: Cards, _tip: str | None
) -> Sequence[Proposer]:
    """Return no proposer: the cookbook alone."""
    return ()


@dataclass
class Course:
    """One run over its instruments, with its journal; `Stations` of the loop."""

    instruments: Instruments
    options: RunOptions
    journal: Journal
    events: Events
    registry: Mapping[LayerName, Layer]
    layers: Sequence[Layer]  # that this run may change
    allowed: int  # candidates that this run may try
    started: float  # when this process began, monotonic
    proposers: ProposersOpener = nobody  # beside the cookbook
    candidates: dict[int, Candidate] = field(default_factory=dict)
    calibration: CalibrationAnswer | None = None
    tried: int = 0  # candidates with a verdict
    short: str = ""  # why there was no time for another candidate, in numbers

    def __post_init__(self) -> None:
        """Find out whether an earlier process worked on this run, and go on as it if so."""
        self.stack = self.instruments.stack
        entries = self.journal.entries
        worked = resume.worked_at(self.instruments.out / TRANSCRIPTS / LEDGER)
        self.earlier = Earlier(entries, self.journal.path, worked)
        self.branches = Branches(self.stack, self.journal, self.earlier, self._worktrees)
        recorded = self.earlier.head
        tip = recorded.knowledge_tip if recorded else learning.knowledge_tip(self.stack)
        self.known = learning.cards(self.instruments, self.options.cookbook, tip)
        if recorded is not None:  # proposers note the run's name
            life = self.earlier.lives + 1
            self.instruments.resume_as(recorded.run_id, recorded.started_at, life)
        self.authors = Authors(
            list(self.proposers(self.instruments, self.options, self.known, tip)),
            self.stack,
            self.journal,
            self.earlier,
            self.events,
            self._worktrees,
            self.instruments.check,
        )
        head = self._head(tip)
        if recorded is None:
            self.journal.append(STARTED, head)
        else:
            self._go_on(recorded, head)
        self.base_branch = (recorded or head).base_branch
        self.ground = self.instruments.ground()

    def _go_on(self, recorded: Head, now: Head) -> None:
        resume.check(self.earlier, recorded, now, self.stack)
        life, spent_s = self.earlier.lives + 1, self.earlier.spent_s
        self.journal.append(RESUMED, Resumed(life=life, spent_s=spent_s))
        self.events.note(f"goes on with run {recorded.run_id}, {spent_s:.0f} s into it")

    def _head(self, tip: str | None) -> Head:
        instruments = self.instruments
        return Head(
            run_id=instruments.run_id,
            started_at=instruments.started_at,
            seed=self.options.seed,
            stack=instruments.record(),
            environment=instruments.environment,
            basis=resume.basis(self.stack, instruments.view.root, self.options, self.known),
            base_branch=learning.base_branch(self.stack),
            knowledge_tip=tip,
            reproduce=learning.reproduce(self.options),
        )

    def report(self) -> RunReport:
        """Run everything in order; the report is folded from the journal."""
        state, conclusion = run_loop(
            self,
            self.layers,
            self.instruments.view,
            rng=random.Random(self.options.seed),
            candidates=self.allowed,
            cookbook=COOKBOOK in self.options.proposers,
        )
        if conclusion == TIME_SPENT and self.short:
            conclusion = f"{conclusion}: {self.short}"
        if self.earlier.take_text("not_tried") is None:
            self.journal.append("not_tried", [*state.not_tried, *self._refusals(state)])
        chain = self._combine(state)
        if chain.candidates:
            conclusion += self._total(chain)
        pulls = self._publish(state, chain)
        self._refine(state)
        conclusion = f"{_opened(pulls)}; {conclusion}{self._shared()}"
        self.journal.append(FINISHED, End(conclusion=conclusion, wall_s=self._spent_s()))
        self.events.note(conclusion)
        return report.fold(self.journal.entries)

    def _shared(self) -> str:
        """Say what a run that is one part of another can claim; nothing of a run by itself."""
        if self.options.shard is None:
            return ""
        return (
            f"; shard {self.options.shard}, which may try {self.allowed} of the run's "
            f"{self.stack.manifest.budget.candidates} candidates: nothing here was measured on top of "
            "what other shards accept, or is added up with it"
        )

    def _refusals(self, state: LoopState) -> list[str]:
        return [
            line
            for layer in self.layers
            for line in layer.refusals(state.base, self.cards(layer.name))
        ]

    # --- stations of the loop ---------------------------------------------------------------

    def calibrate(self) -> Noise:
        """Measure the noise floor; what follows is held against it."""
        found = self.earlier.take("calibration", CalibrationAnswer)
        if found is None:
            found = self.instruments.calibrate()
            self.journal.append("calibration", found)
        else:
            self.instruments.restore(found)
        self.calibration = found
        return Noise(work=found.work)

    def profile(self, base: StackView) -> Profile:
        """Profile the base; the first profile was taken during calibration."""
        if self.calibration is not None and base.commit == self.instruments.view.commit:
            return self.calibration.profile.profile(self.instruments.out)
        found = self.earlier.take("profile", ProfileAnswer) or self._profile(base)
        if found.commit != base.commit:
            raise self.earlier.mismatch(f"the journal profiles {found.commit[:12]} next")
        return found.profile(self.instruments.out)

    def _profile(self, base: StackView) -> ProfileAnswer:
        failed = self.earlier.take("profile_failed", ProfileFailure)
        if failed is not None:
            raise FvecError(failed.message)
        try:
            found = self.instruments.profile(base)
        except RunStopped:
            raise
        except FvecError as error:
            told = ProfileFailure(commit=base.commit, message=error.message)
            self.journal.append("profile_failed", told)
            raise
        self.journal.append("profile", found)
        return found

    def cards(self, layer: LayerName) -> Sequence[CookbookCard]:
        """Return the cards of one layer."""
        return self.known.for_layer(layer)

    def weigh(self, found: Sequence[Hypothesis], on_top: Sequence[str]) -> Weighed:
        """Return hypotheses in the light of what earlier runs found."""
        shard = self.options.shard
        own = [one for one in found if shard is None or shard.takes(one)]
        weighed = learning.weigh(self.known, self.ground, own, on_top)
        return replace(weighed, elsewhere=len(found) - len(own))

    def together(self) -> Layer:
        """Return what carries out several hypotheses as one candidate."""
        return Together(self.registry, self.stack, self._worktrees)

    def past(self) -> Sequence[Past]:
        """Return what earlier runs found, by layer."""
        return learning.past(self.known, self.ground)

    def write(self, situation: Situation) -> Written | None:
        """Have the next proposer write a candidate; None once none is left to be asked."""
        return self.authors.write(situation)

    def heard(self, iteration: Iteration, situation: Situation) -> Heard:
        """Tell the author of a candidate what became of it."""
        return self.authors.heard(iteration, situation)

    def commit(self, base: StackView, hypothesis: Hypothesis, edit: Edit) -> Candidate:
        """Commit an edit on a branch of its own, in a worktree of its own."""
        return self.branches.commit(self.tried + 1, base, hypothesis, edit)

    def verify(self, candidate: Candidate, layer: Layer, base: StackView, n: int) -> Iteration:
        """Have a candidate judged, and journal the verdict."""
        self.candidates[n], self.tried = candidate, n
        recorded = self.earlier.take("iteration", Iteration)
        if recorded is not None:
            iteration = recorded
            if (iteration.n, iteration.commit) != (n, candidate.commit):
                raise self.earlier.mismatch(f"the verdict on candidate {n} is of another commit")
            if iteration.verdict is Verdict.ACCEPTED:
                self.instruments.build(self.instruments.seen(candidate.worktree))
        else:
            iteration = self._judged(candidate, layer, base, n)
        if iteration.verdict is not Verdict.ACCEPTED:
            self.branches.withdraw(candidate)
        return iteration

    def _judged(self, candidate: Candidate, layer: Layer, base: StackView, n: int) -> Iteration:
        try:
            iteration = self.instruments.verify(candidate, layer, base, n)
            if (story := self.authors.story(candidate.hypothesis)) is not None:
                iteration = iteration.model_copy(update={"story": story})
            self.journal.append("iteration", iteration)
        except BaseException:
            self.branches.withdraw(candidate)
            raise
        self.events.note(f"{iteration.hypothesis.title}: {iteration.verdict} ({iteration.reason})")
        return iteration

    def adopt(self, candidate: Candidate) -> StackView:
        """Return the stack with the candidate in it, for later ones to build on."""
        return self.instruments.seen(candidate.worktree)

    def record(self, kind: str, text: str) -> None:
        """Journal one line for the report."""
        told = self.earlier.take_text(kind)
        if told is None:
            self.journal.append(kind, text)
        elif told != text:
            raise self.earlier.mismatch(f"the journal says {told!r}, and now it is {text!r}")

    def time_left(self) -> bool:
        """Say whether another candidate, the total and the publishing fit into the budget."""
        answer = self.earlier.take("budget", Budget)
        if answer is None:
            needs, spent_s = self._needs(), self._spent_s()
            answer = Budget(
                left=spent_s + needs.sum_s < self._minutes * 60,
                spent_s=spent_s,
                cut=self.earlier.cut(self.tried),
                candidate_s=needs.candidate_s,
                reserved_s=needs.reserved_s,
            )
            self.journal.append("budget", answer)
        if not answer.left and answer.reserved_s:
            needs = duration.Needs(answer.candidate_s, answer.reserved_s)
            self.short = duration.told(self._minutes, answer.spent_s, needs)
        return answer.left

    @property
    def _minutes(self) -> float:
        return self.options.minutes or self.stack.manifest.budget.minutes

    def _needs(self) -> duration.Needs:
        """Return what another candidate and the end of the run take, as the calibration says."""
        if self.calibration is None:
            raise RuntimeError("time_left before calibrate")
        rate = self.instruments.record().recorded_rate
        return duration.needs(self.calibration.launch_s, rate, TOTAL_BUDGET)

    def cut(self, tried: int) -> int:
        """Return how many attempts at the first `tried` candidates a kill cut after a look."""
        recorded = self.earlier.peek("budget", Budget)  # the answer that follows this question
        return recorded.cut if recorded is not None else self.earlier.cut(tried)

    # --- after the loop -----------------------------------------------------------------------

    def _combine(self, state: LoopState) -> Chain:
        """Measure what was accepted on top of one another; what no longer pays is rejected."""
        accepted = [i for i in state.iterations if i.verdict is Verdict.ACCEPTED]
        judged = {i.n: self.candidates[i.n] for i in accepted}
        if len(judged) > 1:
            self.events.phase("combination", f"{len(judged)} changes on top of one another")
        chains = Chains(
            self.instruments,
            self.journal,
            self.earlier,
            judged,
            self.branches.withdraw,
            self.time_left,
        )
        chain = combine(chains, Chain(judged, state.base), accepted)
        found = report.fold(self.journal.entries)
        state.iterations = found.iterations
        for iteration in found.iterations:
            if iteration.n in judged and iteration.n not in chain.candidates:
                self.events.note(f"{iteration.hypothesis.title}: taken out, {iteration.detail}")
        return chain

    def _total(self, chain: Chain) -> str:
        """Measure one start against one end; return what the conclusion says if that fails."""
        answer = self.earlier.take("totals", TotalAnswer)
        if answer is None:
            try:
                answer = self.instruments.total(chain.end)
            except RunStopped:
                raise
            except FvecError as error:
                first = error.message.partition("\n")[0]
                answer = TotalAnswer(total=None, failure=first)
            self.journal.append("totals", answer)
        return f"; the total could not be measured: {answer.failure}" if answer.failure else ""

    def _publish(self, state: LoopState, chain: Chain) -> list[PullRequestRecord]:
        """Open one pull request per accepted candidate, each on top of the one before."""
        if not chain.candidates:
            return []
        self.events.phase("publish", f"{len(chain.candidates)} pull requests")
        publisher: Publisher = self.options.forge(self.options.out)
        base, records = self.base_branch, []
        for n, candidate in chain.candidates.items():
            record = self.earlier.take("pull_request", PullRequestRecord)
            if self.earlier.take("pull_request_intended", PullIntent) is None:
                self.journal.append(
                    "pull_request_intended",
                    PullIntent(n=n, branch=candidate.branch, commit=candidate.commit),
                )
            if record is None:
                evidence = self._evidence(candidate, state, n, alone=len(chain.candidates) == 1)
                record = publisher.publish(evidence, candidate.patch, base, candidate.branch)
                self.journal.append("pull_request", record)
            records.append(record)
            base = candidate.branch
        return records

    def _evidence(
        self, candidate: Candidate, state: LoopState, n: int, *, alone: bool
    ) -> EvidenceFile:
        folded = report.fold(self.journal.entries)
        if folded.noise is None:
            raise RuntimeError("publish before calibrate")
        own = next(iteration for iteration in state.iterations if iteration.n == n)
        return EvidenceFile(
            run_id=self.instruments.run_id,
            stack=self.instruments.record(),
            environment=self.instruments.environment,
            seed=self.options.seed,
            profile=report.profile_of(self.journal.entries, n),
            noise=folded.noise,
            iteration=published(own, candidate, folded.on_top),
            others=[o.model_copy(update={"story": None}) for o in state.iterations if o.n != n],
            on_top=next((one for one in reversed(folded.on_top) if one.n == n), None),
            moved=check_of(candidate, folded.on_top),
            total=folded.total if alone else None,
            blocks=report.blocks_of(self.journal.entries, n),
            reproduce=learning.reproduce(self.options),
            shard=str(self.options.shard) if self.options.shard else None,
        )

    def _refine(self, state: LoopState) -> None:
        """Merge what was learned into the cards, on the knowledge branch."""
        if self.earlier.take("knowledge", KnowledgeRecord) is not None:
            return
        findings = learning.findings(state.iterations, self.registry, self.ground)
        kept = self.authors.kept()
        record = KnowledgeRecord(branch=None, cards_changed=[])
        if findings or kept:
            self.events.phase("refine", f"{len(findings)} cards")
            record = self._refined() or record
            if record.branch is None:
                try:
                    record = learning.refine(
                        self.stack,
                        self.known,
                        findings,
                        self.instruments.out,
                        kept=kept,
                        run=self.instruments.run_id,
                    )
                except RunStopped:
                    raise
                except FvecError as error:  # the pull requests are open: the run is not lost
                    self.events.note(f"the cards could not be refined: {error.message}")
        for problem in record.problems:
            self.events.note(f"a card could not take its findings: {problem}")
        beside = [f"{name}: {_first_words(text)}" for name, text in kept.items() if _unmerged(name)]
        for problem in beside:
            self.events.note(f"what agents remember is kept beside: {problem}")
        record = record.model_copy(update={"problems": [*record.problems, *beside]})
        self.journal.append("knowledge", record)

    def _refined(self) -> KnowledgeRecord | None:
        """Return what an earlier process of this run committed; else announce the edit."""
        intent = self.earlier.take("knowledge_intended", KnowledgeIntent)
        branch = learning.KNOWLEDGE_BRANCH
        if intent is not None:
            return resume.refined_since(self.stack, branch, intent.tip, self.instruments.run_id)
        tip = git.tip(self.stack.root, branch)
        self.journal.append("knowledge_intended", KnowledgeIntent(tip=tip))
        return None

    # ------------------------------------------------------------------------------------------

    @property
    def _worktrees(self) -> Path:
        return self.instruments.out / "worktrees"

    def _spent_s(self) -> float:
        return self.earlier.spent_s + time.monotonic() - self.started


def _opened(pulls: Sequence[PullRequestRecord]) -> str:
    if not pulls:
        return "no pull request"
    return f"{len(pulls)} pull request{'s' if len(pulls) > 1 else ''}"


def _unmerged(name: str) -> bool:
    """Whether a file that is kept lies beside the one that it could not be put into."""
    return name.endswith(".unmerged")


def _first_words(text: bytes) -> str:
    """Return the first line of a file that is kept, which says why it is there."""
    return text.decode("utf-8", "replace").partition("\n")[0].lstrip("# ")
