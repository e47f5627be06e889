"""One given patch, a person's or a tool's, judged like the loop judges its own candidates.

    read the patch -> apply it to the stack's commit -> paths -> calibrate -> layers.trial.verify

The checkout is only read: the patch becomes a commit on a branch of its own, which is removed
afterwards. False accepts cost one candidate (`LookPlan(candidates=1)`): a run of ten shares the
same rate among ten, so a given patch needs a little less evidence than the loop's candidates.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from layers.base import (
    Candidate,
    ChangeClass,
    Edit,
    Hypothesis,
    LayerName,
    StackView,
)
from layers.errors import Inconclusive
from layers.events import Events
from layers.evidence import (
    Block,
    Gate,
    GateResult,
    Iteration,
    JudgeReport,
    Look,
    Noise,
    Verdict,
)
from layers.gates.paths import class_of, judging_modules, paths_gate, protected_files, touched
from layers.loop.wiring import verifier_of
from layers.manifest import SandboxMode
from layers.measure import stats
from layers.record import lock
from layers.record.publishing import Publisher
from layers.registry import LAYERS
from layers.repository import git, patches
from layers.repository.patches import Applied, Patch
from layers.session import RunOptions, Session, open_session
from layers.trial.calibrate import Calibration, calibrate

PLAN = stats.LookPlan(candidates=1)
GIVEN = "given-patch"  # stands where the loop's candidates name their card
BRANCHES = "fvec/judge"


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """What the command line decides about a judgement."""

    out: Path  # results and logs
    seed: int = 0
    name: str = "patch"  # of the patch, for people and errors: no path of this machine
    sandbox: SandboxMode | None = None  # the weakest that will do, whatever the manifest says


def judge_patch(
    path: Path,
    options: JudgeOptions,
    patch: bytes,
    change_class: ChangeClass | None,
    events: Events,
    *,
    held: bool = False,
) -> JudgeReport:
    """Judge a git diff on top of the clean checkout at `path`; return the verdict and its grounds.

    Without a class it is `config` where only config.pbtxt files change, else `exact`; a warning of
    the report says which. A patch that touches the evaluator, `.github/` or git's own files is
    rejected before anything runs. Raises InvalidInput (also for a patch that is malformed or does
    not apply), Missing or ToolFailed; the checkout and its branches are then as they were.

    A repository is worked on by one command at a time; `held` says that the caller holds it.
    """
    patches.read(patch, Path(options.name))  # what is malformed starts nothing
    with judging(path, options, events, held=held) as judge:
        return judge.judge(options.name, patch, change_class)


@contextmanager
def judging(
    path: Path, options: JudgeOptions, events: Events, *, held: bool = False
) -> Iterator[Judging]:
    """Open the checkout at `path` for the judgement of several patches; see `judge_patch`."""
    blocks: list[Block] = []
    with (
        nullcontext() if held else lock.repository(path, options.out),
        open_session(path, _run_options(options), events, blocks.append, afresh=True) as session,
    ):
        yield Judging(session, options, blocks)


class Judging:
    """Judges patches on one stack, which is calibrated once: before the first that needs it."""

    def __init__(self, session: Session, options: JudgeOptions, blocks: list[Block]) -> None:
        """`blocks` receives every block that the session measures."""
        self._session, self._options, self._blocks = session, options, blocks
        self._calibration: Calibration | None = None
        self._measured = 0

    def judge(self, name: str, patch: bytes, change_class: ChangeClass | None) -> JudgeReport:
        """Judge one patch; see `judge_patch`. The report's blocks are those measured for it."""
        started = time.monotonic()
        self._blocks.clear()
        given = patches.read(patch, Path(name))
        options = replace(self._options, name=name)
        judgement = _Judgement(self._session, options, given, change_class, self._blocks)
        # What names protected files is a verdict even where git would refuse to apply it.
        manifest = self._session.stack.manifest
        protected = (
            *protected_files(manifest),
            *judging_modules(manifest, self._session.view.root),
        )
        requirements = manifest.stack.requirements
        refused = touched(given.paths, protected, requirements)
        if refused is not None:
            return judgement.refused(refused, started)
        class_ = judgement.class_of(given.paths)
        with _candidate(self._session, given, class_) as (candidate, applied):
            gate = touched(applied.files, protected, requirements)
            gate = gate or paths_gate(candidate, protected, requirements)
            if gate.result is not GateResult.PASS:
                return judgement.refused(gate, started)
            try:
                self._calibration = self._calibration or calibrate(self._session)
            except Inconclusive as error:
                return judgement.too_noisy(applied, error, started)
            self._measured += 1
            return judgement.judged(candidate, self._calibration, self._measured, started)


@dataclass(frozen=True)
class _Judgement:
    """One patch on one open session, up to its report."""

    session: Session
    options: JudgeOptions
    patch: Patch
    asked: ChangeClass | None
    blocks: Sequence[Block]

    def class_of(self, files: Sequence[str]) -> ChangeClass:
        """Return the class that was asked for, else the strictest that fits the files."""
        return self.asked or class_of(files)

    def refused(self, gate: Gate, started: float) -> JudgeReport:
        """Return the report of a patch that is rejected for the paths it names."""
        return self._report(
            self.patch.paths,
            started,
            verdict=Verdict.REJECTED,
            reason=gate.reason,
            detail=gate.detail,
            gates=[gate],
        )

    def too_noisy(self, applied: Applied, error: Inconclusive, started: float) -> JudgeReport:
        """Return the report of a patch on a machine that could not be calibrated."""
        return self._report(
            applied.files,
            started,
            verdict=Verdict.INCONCLUSIVE,
            reason="machine_too_noisy",
            detail=error.message,
        )

    def judged(
        self, candidate: Candidate, calibration: Calibration, n: int, started: float
    ) -> JudgeReport:
        """Have the candidate judged against the calibrated stack; it is the session's `n`th."""
        verifier = verifier_of(calibration, PLAN, _unseen)
        # Both layers leave the local gain to the CPU of the changed model's process.
        layer = LAYERS[candidate.hypothesis.layer]
        iteration = verifier.verify(candidate, layer, calibration.session.view, n)
        return self._measured(iteration, calibration, started)

    def _measured(
        self, iteration: Iteration, calibration: Calibration, started: float
    ) -> JudgeReport:
        """Return the report of a trial, with the environment as the calibration completed it."""
        return self._report(
            iteration.files_changed,
            started,
            iteration.warnings,
            verdict=iteration.verdict,
            reason=iteration.reason,
            detail=iteration.detail,
            gates=iteration.gates,
            equivalence=iteration.equivalence,
            outputs_compared=iteration.outputs_compared,
            environment=calibration.session.environment,
            noise=Noise(work=calibration.work),
            looks=iteration.looks,
            pairs=iteration.pairs,
            confirm=iteration.confirm,
            voids=iteration.voids,
            costs=iteration.costs,
            local=iteration.local,
            end_to_end=iteration.end_to_end,
            load_test=iteration.load_test,
            traffic=iteration.traffic,
            resolvable=stats.resolvable(calibration.work, PLAN, calibration.launch_s),
        )

    def _report(
        self,
        files: Sequence[str],
        started: float,
        warnings: Sequence[str] = (),
        **found: object,
    ) -> JudgeReport:
        """Fill in what every report says; `found` are fields of the verdict."""
        session, options = self.session, self.options
        change_class = self.class_of(files)
        return JudgeReport.model_validate(
            {
                "target": "patch",
                "subject": f"{options.name} on {session.stack.name} at {session.stack.commit[:12]}",
                "change_class": change_class,
                "warnings": [*self._warnings(change_class), *warnings],
                "stack": session.record(),
                "environment": session.environment,
                "seed": options.seed,
                "patch_sha256": hashlib.sha256(self.patch.data).hexdigest(),
                "files_changed": list(files),
                "blocks": list(self.blocks),
                "reproduce": reproduce(options, change_class),
                "wall_s": time.monotonic() - started,
                **found,
            }
        )

    def _warnings(self, change_class: ChangeClass) -> list[str]:
        lines = []
        if self.asked is None:
            config = change_class is ChangeClass.CONFIG
            why = "only config.pbtxt files change" if config else "not only config.pbtxt changes"
            lines.append(f"no class was given: judged as {change_class}, since {why}")
        void = sum(1 for block in self.blocks if block.void)
        if void:
            lines.append(f"{void} of {len(self.blocks)} blocks were void and decided nothing")
        return lines


def reproduce(options: JudgeOptions, change_class: ChangeClass) -> list[str]:
    """Return the command that judges again, as argv, run where the repository is checked out."""
    argv = ["fvec", "judge", ".", "--patch", options.name, "--class", change_class.value]
    return [*argv, "--seed", str(options.seed)]


@contextmanager
def _candidate(
    session: Session, patch: Patch, change_class: ChangeClass
) -> Iterator[tuple[Candidate, Applied]]:
    """Commit the patch on a branch of its own, in a worktree of its own; both go afterwards."""
    stack, base = session.stack, session.view.commit
    subject = f"Judge {patches.name_of(patch.source)}"
    applied = patches.commit(stack.root, base, patch, subject)
    branch = f"{BRANCHES}/{applied.commit[:12]}"
    worktree = stack.worktree(applied.commit, session.out / "worktrees")
    try:
        git.set_branch(stack.root, branch, applied.commit)
        edit = Edit(_contents(worktree, applied.files), subject, "A patch that was given.")
        hypothesis = _hypothesis(session.view, applied.files, subject, change_class)
        yield (
            Candidate(hypothesis, edit, branch, base, applied.commit, worktree, applied.diff),
            applied,
        )
    finally:
        stack.remove_worktree(worktree)
        stack.drop_branch(branch, applied.commit)


def _contents(worktree: Path, files: Sequence[str]) -> dict[str, bytes | None]:
    """Return the new content of each file, None where it is deleted; they are plain files."""
    places = {name: worktree / name for name in files}
    return {name: p.read_bytes() if p.is_file() else None for name, p in places.items()}


def _hypothesis(
    view: StackView, files: Sequence[str], title: str, change_class: ChangeClass
) -> Hypothesis:
    """Return what stands where the loop's candidates have an expectation: there is none here."""
    models = PurePosixPath(view.manifest.stack.models)
    pure = [PurePosixPath(name) for name in files]
    named = {p.relative_to(models).parts[0] for p in pure if models in p.parents}
    return Hypothesis(
        layer=LayerName.CONFIG if change_class is ChangeClass.CONFIG else LayerName.FEATURES,
        card=GIVEN,
        model=named.pop() if len(named) == 1 else "",  # whose process's CPU is the local gain
        title=title,
        why="the patch was given; nothing was expected of it",
        share=0.0,
        expected_gain=0.0,
        best_gain=0.0,
        change_class=change_class,
        transform=GIVEN.replace("-", "_"),
    )


def _run_options(options: JudgeOptions) -> RunOptions:
    """Return what a session needs to know."""
    return RunOptions(
        out=options.out,
        layers=None,
        minutes=None,
        seed=options.seed,
        cookbook=None,
        forge=_no_forge,
        sandbox=options.sandbox,
    )


def _no_forge(out: Path) -> Publisher:
    raise RuntimeError(f"a judgement publishes nothing, and wanted a forge in {out}")


def _unseen(_look: Look) -> None:
    """Take a look that no journal keeps: the report has all of them."""
