"""A run whose measurements are those of a recorded run; everything else is real.

`Replayed` stands where the live instruments do (`layers.loop.instruments`): deployments, blocks, load
tests and the total come from a recording. Git, worktrees, rewrites, journal, forge, cards and
locks are the product's own. A candidate gets what the recorded candidate of the same card and
model got; one that the recording does not know gets what a rejected one got.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import ClassVar

from layers.base import Candidate, Ground, Layer, StackView
from layers.events import Events
from layers.evidence import (
    Block,
    Environment,
    Gate,
    GateResult,
    Iteration,
    Look,
    StackRecord,
    Verdict,
)
from layers.loop import instruments
from layers.loop.proposing import Checked
from layers.loop.report import kept
from layers.record.answers import CalibrationAnswer, ProfileAnswer, TotalAnswer
from layers.record.journal import Entry
from layers.record.results_folder import prepared
from layers.repository import git
from layers.repository.stack import Stack
from layers.session import RunOptions
from layers.trial.trial import hypothesis_record

RECORDED = Path(__file__).parents[1] / "data" / "recorded" / "ads_serving.jsonl"
STARTED_AT = "2026-01-02T03:04:05+00:00"  # of every replayed run, so that runs can be compared


@dataclass
class Trial:
    """What was measured for one answer, in order, and the answer."""

    measured: list[Block | Look] = field(default_factory=list)
    iteration: Iteration | None = None


@dataclass
class Recording:
    """The measurements of one run."""

    stack: StackRecord
    environment: Environment
    calibration: CalibrationAnswer
    noise: list[Block | Look]  # measured for the calibration
    profiles: list[ProfileAnswer]  # after one accepted candidate, two, ...
    trials: dict[tuple[str, str], Trial]  # by card and model
    last: list[Block | Look]  # measured for the total
    total: TotalAnswer

    @classmethod
    def read(cls, path: Path = RECORDED) -> Recording:
        """Read a recording: lines of kind and data, as a journal has them."""
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        entries = [Entry(n, "", line["kind"], line["data"]) for n, line in enumerate(lines)]
        return cls.of(entries)

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Recording:
        """Take the measurements out of a run's journal."""
        head = entries[0].data
        measured: list[Block | Look] = []
        found: dict[str, tuple[object, list[Block | Look]]] = {}
        profiles, trials = [], {}
        for entry in kept(entries[1:]):
            if entry.kind == "block":
                measured.append(Block.model_validate(entry.data))
            elif entry.kind == "look":
                measured.append(Look.model_validate(entry.data))
            elif entry.kind == "profile":
                profiles.append(ProfileAnswer.model_validate(entry.data))
            elif entry.kind == "iteration":
                iteration = Iteration.model_validate(entry.data)
                key = (iteration.card, iteration.hypothesis.model)
                trials[key], measured = Trial(measured, iteration), []
            elif entry.kind in ("calibration", "totals"):
                found[entry.kind], measured = (entry.data, measured), []
        calibration, noise = found["calibration"]
        total, last = found["totals"]
        return cls(
            stack=StackRecord.model_validate(head["stack"]),
            environment=Environment.model_validate(head["environment"]),
            calibration=CalibrationAnswer.model_validate(calibration),
            noise=noise,
            profiles=profiles,
            trials=trials,
            last=last,
            total=TotalAnswer.model_validate(total),
        )

    def trial(self, candidate: Candidate) -> Trial:
        """Return what the candidate gets."""
        key = (candidate.hypothesis.card, candidate.hypothesis.model)
        if key in self.trials:
            return self.trials[key]
        return next(
            trial
            for trial in self.trials.values()
            if trial.iteration and trial.iteration.verdict is Verdict.REJECTED
        )


@dataclass
class Replayed:
    """`Instruments` over a recording."""

    recording: Recording
    stack: Stack
    view: StackView
    out: Path
    on_measured: Callable[[Block | Look], None]
    run_id: str
    started_at: str = STARTED_AT
    asked: list[str] = field(default_factory=list)  # what had to be measured

    @property
    def environment(self) -> Environment:
        return self.recording.environment

    def record(self) -> StackRecord:
        return self.recording.stack.model_copy(update={"commit": self.stack.commit})

    def ground(self) -> Ground:
        return Ground(
            date=date.fromisoformat(self.started_at[:10]),
            stack=self.stack.name,
            commit=self.stack.commit,
            hardware=self.environment.cpu,
            versions={"triton": self.environment.server},
            workload="recorded",
            run=self.run_id,
            fvec="recorded",
            code=self.stack.code(),
        )

    def resume_as(self, run_id: str, started_at: str, life: int) -> None:
        self.run_id, self.started_at = run_id, started_at

    def calibrate(self) -> CalibrationAnswer:
        self._measure("calibration", self.recording.noise)
        recorded = self.recording.calibration
        profile = recorded.profile.model_copy(update={"commit": self.view.commit})
        return recorded.model_copy(update={"profile": profile})

    def restore(self, calibration: CalibrationAnswer) -> None:
        """A recording knows its blocks."""

    def profile(self, view: StackView) -> ProfileAnswer:
        self.asked.append("profile")
        span = f"{self.view.commit}..{view.commit}"
        accepted = int(git.git(self.stack.root, "rev-list", "--count", span))
        recorded = self.recording.profiles[min(accepted, len(self.recording.profiles)) - 1]
        return recorded.model_copy(update={"commit": view.commit})

    def seen(self, worktree: Path) -> StackView:
        return replace(self.view, root=worktree, commit=git.resolve(worktree, "HEAD"))

    def build(self, view: StackView) -> None:
        """Nothing of it is served."""

    def check(self, candidate: Candidate, base: StackView) -> Checked:
        """A recording holds trials alone: every draft passes."""
        self.asked.append("check")
        paths = Gate(name="paths", result=GateResult.PASS, reason="paths_allowed")
        return Checked(gates=(paths,), passed=True)

    def verify(self, candidate: Candidate, layer: Layer, base: StackView, n: int) -> Iteration:
        self._measure(f"candidate {n}", self.recording.trial(candidate).measured)
        return self._judged(candidate, n)

    def _judged(self, candidate: Candidate, n: int) -> Iteration:
        trial = self.recording.trial(candidate)
        assert trial.iteration is not None
        patch = candidate.patch.encode("utf-8", "surrogateescape")
        return trial.iteration.model_copy(
            update={
                "n": n,
                "layer": candidate.hypothesis.layer,
                "card": candidate.hypothesis.card,
                "hypothesis": hypothesis_record(candidate.hypothesis, title=candidate.edit.summary),
                "branch": candidate.branch,
                "commit": candidate.commit,
                "base_commit": candidate.base_commit,
                "explanation": candidate.edit.explanation,
                "patch_sha256": hashlib.sha256(patch).hexdigest(),
                "files_changed": sorted(candidate.edit.files),
            }
        )

    def remeasure(
        self, candidate: Candidate, without: StackView, end: StackView, n: int
    ) -> Iteration:
        """A change that was accepted pays on top of the others, by the looks it had alone."""
        trial = self.recording.trial(candidate)
        self._measure(f"on top {n}", trial.measured)
        assert trial.iteration is not None
        return trial.iteration

    def recheck(self, candidate: Candidate, base: StackView, n: int) -> Iteration:
        """A change that was accepted passes its gate on another base."""
        self.asked.append(f"recheck {n}")
        return self._judged(candidate, n)

    def total(self, end: StackView) -> TotalAnswer:
        self._measure("total", self.recording.last)
        return self.recording.total

    def _measure(self, what: str, measured: Sequence[Block | Look]) -> None:
        self.asked.append(what)
        for one in measured:
            self.on_measured(one)


def opener(recording: Recording) -> instruments.Opener:
    """Return what opens a stack with the measurements of a recording."""

    @contextmanager
    def open_replayed(
        path: Path,
        options: RunOptions,
        events: Events,
        on_block: Callable[[Block], None],
        on_look: Callable[[Look], None],
    ) -> Iterator[instruments.Instruments]:
        def on_measured(one: Block | Look) -> None:
            if isinstance(one, Block):
                on_block(one)
            else:
                on_look(one)

        with Stack.open(path) as stack, prepared(options.out, resume=options.resume) as out:
            worktree = stack.worktree(stack.commit, out / "worktrees")
            view = StackView(worktree, stack.commit, stack.manifest, Path(sys.executable))
            run_id = hashlib.sha256(f"{stack.commit}{STARTED_AT}".encode()).hexdigest()[:12]
            yield Replayed(recording, stack, view, out, on_measured, run_id)

    return open_replayed


class Remembered:
    """A layer whose answers are those of the real one, kept by the content that they follow from.

    Lives are forks: what was answered before the fork need not be worked out in each of them.
    """

    known: ClassVar[dict[str, object]] = {}

    def __init__(self, layer: Layer) -> None:
        self.layer, self.name = layer, layer.name

    def profile(self, profile, stack):
        given = ("profile", tuple(profile.hotspots))
        return self._kept(stack, given, lambda: self.layer.profile(profile, stack))

    def diagnose(self, hotspots, stack, cards):
        given = (tuple(hotspots), tuple(cards))
        return self._kept(stack, given, lambda: self.layer.diagnose(hotspots, stack, cards))

    def refusals(self, stack, cards):
        given = ("refusals", tuple(cards))
        return self._kept(stack, given, lambda: self.layer.refusals(stack, cards))

    def optimize(self, hypothesis, stack):
        return self._kept(stack, hypothesis, lambda: self.layer.optimize(hypothesis, stack))

    def verify(self, candidate, baseline, patched):
        return self.layer.verify(candidate, baseline, patched)

    def refine(self, iteration, ground):
        return self.layer.refine(iteration, ground)

    def _kept(self, stack: StackView, given: object, answer: Callable[[], object]):
        digest = hashlib.sha256(repr((self.name, given)).encode())
        for path in sorted(p for p in (stack.root / "models").rglob("*") if p.is_file()):
            digest.update(str(path.relative_to(stack.root)).encode() + path.read_bytes())
        key = digest.hexdigest()
        if key not in self.known:
            self.known[key] = answer()
        return self.known[key]
