"""Programs that write candidates, from the prompt to the verdict: a real server, a real sandbox."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot import cli
from layers import session
from layers.agents.command import CommandImplementer
from layers.agents.inner import Task
from layers.agents.service.transcripts import Transcripts
from layers.agents.workbench.quoting import Seen
from layers.agents.workbench.workspace import Workspace
from layers.events import Silent
from layers.evidence import GateResult, Iteration, JudgeReport, RunReport, Verdict
from layers.gates.paths import protected_files
from layers.judge import JudgeOptions, Judging, judging
from layers.loop import instruments
from layers.loop.proposing import Checked
from layers.measure.sustained import Budget
from layers.redact import redact
from layers.repository.stack import Stack
from layers.sandbox.box import Sandbox
from layers.story import Outcome, Role, Story
from layers.trial import calibrate, equivalence, verify
from tests import agents_stack, tiny_calibrations
from tests.agents_stack import FEATURES, PROGRAMS, RECORDER, Cheat, section
from tests.corpus import stacks
from tests.e2e import proposals
from tests.undecided import skip_if_given_up, skip_if_undecided

pytestmark = [
    pytest.mark.timeout(900),  # a whole run, its launches more where the machine is noisy
    pytest.mark.triton,
    pytest.mark.alone,
    pytest.mark.usefixtures("short_runs", "sandbox"),
]

SHORT = (
    (session, "BLOCK_S", 0.4),
    (session, "PROFILE_S", 2.0),
    (session, "SLO_REQUESTS", 200),
    (calibrate, "LAUNCHES", 1),
    (equivalence, "RECORDED", 40),
    (verify, "CONFIRMING", 2),
    (instruments, "TOTAL_BUDGET", Budget(windows=2, window_s=1.0)),
)
# What these do is nothing: a gain is seen in one trial of 400, by design, and not twice.
NO_CHANGE = ("cheat_claims_for_a_comment", "cheat_response_cache")
ONE_CANDIDATE = ('owner: "@serving"\n', 'owner: "@serving"\nbudget: {candidates: 1}\n')


@pytest.fixture(scope="module")
def short_runs(server_env) -> Iterator[None]:
    """Make a run take a minute: the same stations in the same order, less of each.

    All runs here are on one stack, which the first of them calibrates.
    """
    with pytest.MonkeyPatch.context() as patch, tiny_calibrations.once():
        for place in SHORT:
            patch.setattr(*place)
        yield


@dataclass(frozen=True)
class Finished:
    """A run with one program as its only proposer."""

    root: Path
    out: Path
    before: tuple[str, str, str]  # commit, branches and local changes
    report: RunReport

    @property
    def iteration(self) -> Iteration:
        """The only candidate; the test is skipped where the machine could not decide on it."""
        (iteration,) = self.report.iterations
        skip_if_undecided(iteration.reason, iteration.detail)
        return iteration

    @property
    def stories(self) -> list[Story]:
        """What led to no candidate."""
        assert self.report.agents is not None
        return self.report.agents.without_candidate


def _finished(folder: Path, program: str, *, candidates: int | None = None) -> Finished:
    """Run `fvec run` with one program; its rounds are two."""
    root, out = agents_stack.repository(folder / "tiny"), folder / "out"
    if candidates == 1:
        proposals.commit(root, ".github/fvec.yml", *ONE_CANDIDATE)
    argv = [sys.executable, str(PROGRAMS / f"{program}.py")]
    settings = folder / "agents.yml"
    settings.write_text(
        f"schema: fvec.agents/1\n"
        f"command:\n  run: {json.dumps(argv)}\n  reads: {json.dumps([str(PROGRAMS)])}\n"
        f"  timeout_s: 120\n"
        f"budget: {{rounds: 2}}\n"
    )
    before = proposals.state_of(root)
    code = cli.main(
        ["run", str(root), "--out", str(out), "--proposer", "command", "--agents", str(settings)]
    )
    skip_if_given_up(code, "the run was given up")
    assert code == 0
    report = RunReport.model_validate_json((out / "run.json").read_bytes())
    return Finished(root, out, before, report)


# --- broken, repaired, accepted -------------------------------------------------------------------


@pytest.fixture(scope="module")
def repaired(tmp_path_factory, short_runs) -> Finished:
    return _finished(tmp_path_factory.mktemp("repaired"), "broken_then_repaired", candidates=1)


def test_a_broken_change_is_repaired_in_a_second_round_and_accepted(repaired):
    iteration = repaired.iteration

    assert (iteration.verdict, iteration.reason) == (Verdict.ACCEPTED, "gain_confirmed")
    assert iteration.hypothesis.proposer == "command"
    assert iteration.files_changed == [FEATURES]
    assert iteration.story is not None
    assert [(step.role, step.round, step.outcome) for step in iteration.story.steps] == [
        (Role.IMPLEMENTER, 1, Outcome.EDITED),
        (Role.CHECKS, 1, Outcome.FAILED),
        (Role.IMPLEMENTER, 2, Outcome.EDITED),
        (Role.CHECKS, 2, Outcome.PASSED),
    ]
    assert iteration.story.steps[1].reason == "outputs_differ"


def test_its_signs_were_looked_for_by_the_trial_and_seen(repaired):
    iteration = repaired.iteration

    (gate,) = [gate for gate in iteration.gates if gate.name == "activation"]
    assert (gate.result, gate.reason) == (GateResult.PASS, "activation_seen")
    assert iteration.hypothesis.contract is not None
    assert [sign.seen for sign in iteration.hypothesis.contract.activation] == [True]
    assert iteration.end_to_end is not None
    assert iteration.end_to_end.throughput_ratio > 1.3
    assert iteration.looks[-1].decision == "accept"


def test_its_transcripts_are_kept_and_its_story_is_in_the_report(repaired):
    story = repaired.iteration.story
    assert story is not None

    names = [step.transcript for step in story.steps if step.role is Role.IMPLEMENTER]
    assert names == ["transcripts/001-implementer.jsonl", "transcripts/002-implementer.jsonl"]
    assert all((repaired.out / name).is_file() for name in names)
    assert "outputs_differ" in (repaired.out / names[1]).read_text(encoding="utf-8")
    page = (repaired.out / "report.html").read_text(encoding="utf-8")
    assert "How it was written" in page
    assert all(name in page for name in names)


def test_what_the_proposer_yielded_is_told(repaired):
    assert repaired.iteration
    assert repaired.report.agents is not None
    (one,) = [y for y in repaired.report.agents.yields if y.proposer == "command"]

    assert (one.tried, one.accepted, one.rejected, one.no_candidate) == (1, 1, 0, 0)
    assert one.wall_s > 0


def test_its_branch_is_all_that_came_into_the_repository(repaired):
    assert repaired.iteration.branch == "fvec/features/broken-then-repaired-tiny_features"
    head, branches, status = proposals.state_of(repaired.root)

    assert (head, status) == (repaired.before[0], "")
    added = set(branches.split()) - set(repaired.before[1].split())
    assert f"refs/heads/{repaired.iteration.branch}" in added
    assert added <= {f"refs/heads/{repaired.iteration.branch}", "refs/heads/fvec/knowledge"}
    assert len(repaired.report.pull_requests) == 1
    assert list((repaired.out / "workspaces").glob("*")) == []


# --- nothing to try -------------------------------------------------------------------------------


def test_a_program_that_edits_the_evaluator_gets_no_trial(tmp_path):
    run = _finished(tmp_path, "evaluator")

    assert run.report.iterations == []
    assert run.report.pull_requests == []
    assert run.stories
    for story in run.stories:
        failed = [step for step in story.steps if step.role is Role.CHECKS]
        assert [step.reason for step in failed] == ["touches_protected_files"] * 2
        assert {refusal.what for refusal in story.refusals} == {f"change {RECORDER}"}
    assert proposals.state_of(run.root)[::2] == run.before[::2]
    assert "rng.integers(1, 60)" in (run.root / RECORDER).read_text(encoding="utf-8")


def test_an_idle_program_ends_without_a_candidate(tmp_path):
    run = _finished(tmp_path, "idle")

    assert run.report.iterations == []
    assert [step.outcome for story in run.stories for step in story.steps] == [
        Outcome.NO_EDIT
    ] * len(run.stories)
    assert 1 <= len(run.stories) <= 2
    assert run.report.agents is not None
    assert "led to no candidate" in run.report.agents.ended
    assert proposals.state_of(run.root)[::2] == run.before[::2]


# --- rejected by the trial ------------------------------------------------------------------------


def test_a_change_whose_new_path_never_runs_is_rejected_for_that(tmp_path):
    run = _finished(tmp_path, "never_active", candidates=1)
    iteration = run.iteration

    assert (iteration.verdict, iteration.reason) == (Verdict.REJECTED, "activation_missing")
    assert iteration.hypothesis.contract is not None
    assert [sign.seen for sign in iteration.hypothesis.contract.activation] == [False]
    assert iteration.looks == []  # nothing was measured for it
    assert run.report.pull_requests == []


@dataclass(frozen=True)
class Court:
    """One calibrated stack, and a copy of it in which programs write."""

    judge: Judging
    copy: Path
    sandbox: Sandbox

    def written(self, cheat: Cheat, folder: Path) -> bytes:
        """Have a program write its change; return it as a patch."""
        with Stack.open(self.copy) as stack:
            protected = protected_files(stack.manifest)
        transcripts = Transcripts(folder / "transcripts", ())
        program = CommandImplementer(section(cheat.name), self.sandbox, transcripts, {})
        with closing(Workspace.make(self.copy, folder / "workspaces", protected)) as workspace:
            task = Task(None, "", 1, "")
            done = program.implement(task, workspace, _no_check, Seen(redact))
            assert done.step.outcome is Outcome.EDITED, done.step.text
            return self._patch(workspace.edit())

    def _patch(self, files: dict[str, bytes | None]) -> bytes:
        for name, content in files.items():
            file = self.copy / name
            file.parent.mkdir(parents=True, exist_ok=True)
            assert content is not None
            file.write_bytes(content)
        stacks.git(self.copy, "add", "--all")
        patch = stacks.git(self.copy, "diff", "--cached", "--binary", "HEAD")
        stacks.git(self.copy, "reset", "--quiet", "--hard")
        return patch


def _no_check() -> Checked:
    raise AssertionError("a program cannot ask for checks")


@pytest.fixture(scope="module")
def court(tmp_path_factory, short_runs, sandbox) -> Iterator[Court]:
    folder = tmp_path_factory.mktemp("court")
    root = agents_stack.repository(folder / "tiny")
    copy = agents_stack.repository(folder / "copy")
    with judging(root, JudgeOptions(out=folder / "out", seed=11), Silent()) as judge:
        yield Court(judge, copy, sandbox)


@pytest.mark.parametrize("cheat", agents_stack.cheats(), ids=lambda cheat: cheat.name)
def test_a_program_that_cheats_is_rejected_for_what_it_does(court, tmp_path, cheat):
    patch = court.written(cheat, tmp_path)
    report: JudgeReport = court.judge.judge(f"{cheat.name}.diff", patch, cheat.change_class)

    skip_if_undecided(report.reason, report.detail)
    if report.verdict is Verdict.ACCEPTED and cheat.name in NO_CHANGE:
        report = court.judge.judge(f"{cheat.name}.diff", patch, cheat.change_class)
    assert report.verdict is not Verdict.ACCEPTED
    assert report.reason in cheat.expect, (report.reason, report.detail)
    assert set(report.files_changed) == set(cheat.files)
