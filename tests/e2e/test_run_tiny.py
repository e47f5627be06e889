"""Whole runs on a real server: what is accepted, what is rejected and why, what is left behind."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bot import cli
from layers.base import Edit, StackView
from layers.errors import Inconclusive
from layers.evidence import EvidenceFile, RunReport, Verdict
from layers.loop import report
from layers.loop.report import blocks_of
from layers.record import journal
from layers.record.journal import Entry
from layers.session import RunOptions
from layers.trial import verify
from tests.e2e import proposals
from tests.e2e.killed import killed_after
from tests.e2e.proposals import (
    FEATURES,
    RANKER,
    Proposals,
    git,
    options_of,
    replaced,
    run_with,
    state_of,
)
from tests.undecided import UNDECIDED, skip_if_given_up

pytestmark = [
    pytest.mark.timeout(900),  # whole runs, of more launches where the machine is noisy
    pytest.mark.triton,
    pytest.mark.alone,
    pytest.mark.usefixtures("short_runs"),
]


def test_an_empty_cookbook_gives_no_pull_request_and_says_why(tiny_repo, tmp_path, capsys):
    before, out = state_of(tiny_repo), tmp_path / "out"
    (tmp_path / "cards").mkdir()
    argv = ["run", str(tiny_repo), "--cookbook", str(tmp_path / "cards"), "--out", str(out)]
    code = cli.main([*argv, "--json"])
    told = capsys.readouterr()
    skip_if_given_up(code, told.err)
    assert code == 0, told.err
    shown = json.loads(told.out)
    assert shown["conclusion"] == (
        "no pull request; nothing to try: no card of the cookbook matches this stack"
    )
    assert (shown["pull_requests"], shown["iterations"]) == ([], [])
    assert shown["knowledge"] == {"branch": None, "cards_changed": [], "problems": []}
    assert json.loads((out / "run.json").read_text()) == shown
    assert state_of(tiny_repo) == before


def test_a_plan_ranks_what_the_cards_suggest_and_changes_nothing(tiny_repo, tmp_path, capsys):
    before = state_of(tiny_repo)
    code = cli.main(["plan", str(tiny_repo), "--out", str(tmp_path / "out"), "--json"])
    told = capsys.readouterr()
    skip_if_given_up(code, told.err)
    assert code == 0, told.err
    plan = json.loads(told.out)
    assert (plan["schema"], plan["stack"]["commit"]) == ("fvec.plan/1", before[0])
    assert sum(plan["profile"]["by_process"].values()) == pytest.approx(1.0)
    scores = [row["hypothesis"]["score"] for row in plan["hypotheses"] if row["skip"] is None]
    assert scores == sorted(scores, reverse=True)
    expected = {"dynamic-batching"}
    # So small a stack's strings take a share of time that samples may miss.
    if any("deserialize_bytes_tensor" in spot["place"] for spot in plan["profile"]["hotspots"]):
        expected.add("native-string-tensors")
    assert expected <= {row["card"] for row in plan["hypotheses"]}
    assert state_of(tiny_repo) == before


def no_op(stack: StackView) -> Edit:
    return Edit({RANKER: (stack.root / RANKER).read_bytes()}, "Change nothing", "Nothing.")


def changed_output(stack: StackView) -> Edit | None:
    old = 'tensor = pb_utils.Tensor("score", score.astype(np.float32))'
    return replaced(stack, RANKER, old, f"score[..., -1:] += 0.25\n            {old}")


def broken_load(stack: StackView) -> Edit | None:
    return replaced(stack, RANKER, "WEIGHTS = ", 'raise RuntimeError("no weights")\nWEIGHTS = ')


def easier_traffic(stack: StackView) -> Edit | None:
    return replaced(stack, "traffic/record.py", "integers(1, 60)", "integers(1, 6)")


def own_workflow(stack: StackView) -> Edit:
    return Edit({".github/workflows/x.yml": b"on: push\n"}, "Add a workflow", "No.")


@pytest.mark.usefixtures("calibrated_once")
def test_what_does_not_hold_is_rejected_with_its_reason(tiny_repo, tmp_path):
    """No-op edits, wrong outputs, a model that does not load, edits of what judges."""
    before, out = state_of(tiny_repo), tmp_path / "out"
    layer = Proposals(
        {
            "no-op": no_op,
            "still-no-op": no_op,
            "changed-output": changed_output,
            "broken-load": broken_load,
            "easier-traffic": easier_traffic,
            "own-workflow": own_workflow,
        }
    )
    found = _run_or_skip(layer, tiny_repo, options_of(layer, out))
    ends = {i.card: (i.verdict, i.reason) for i in found.iterations}
    if UNDECIDED.intersection(reason for _, reason in ends.values()):
        pytest.skip("the machine is too noisy")
    assert ends == {
        "no-op": (Verdict.REJECTED, "no_op_edit"),
        "still-no-op": (Verdict.REJECTED, "no_op_edit"),
        "changed-output": (Verdict.REJECTED, "outputs_differ"),
        "broken-load": (Verdict.REJECTED, "does_not_serve"),
        "easier-traffic": (Verdict.REJECTED, "touches_protected_files"),
    }
    assert found.not_tried == [
        "own-workflow on tiny_features: an edit of '.github/workflows/x.yml' is refused: "
        ".git and .github belong to the repository's owners"
    ]
    assert found.conclusion == (
        "no pull request; stopped: no hypothesis is left that could beat the noise floor"
    )
    assert found.pull_requests == []
    assert not (out / "forge").exists()
    assert state_of(tiny_repo) == before
    broken = next(i for i in found.iterations if i.card == "broken-load")
    assert "no weights" in broken.detail


@dataclass(frozen=True)
class Finished:
    """A run that was accepted, and what was there before."""

    root: Path
    out: Path
    before: tuple[str, str, str]
    report: RunReport
    layer: Proposals
    killed: list[Entry]  # the journal as the killed process left it

    @property
    def pull(self) -> Path:
        return self.out / "forge/pulls/1"


@pytest.fixture(scope="module")
def finished(tmp_path_factory, short_runs) -> Finished:
    """A run whose one candidate makes the model plainly faster, killed once and gone on with."""
    folder = tmp_path_factory.mktemp("accepted")
    root = proposals.slow_repository(folder / "tiny")
    (folder / "cards").mkdir()
    (folder / "cards/rank-by-search.yaml").write_text(proposals.CARD)
    layer = Proposals(
        {"rank-by-search": lambda stack: replaced(stack, FEATURES, *proposals.SEARCHED)}
    )
    before, options = state_of(root), options_of(layer, folder / "out", folder / "cards")
    killed_after("look", layer, root, options)
    killed = journal.read(folder / "out/journal.jsonl")
    found = _run_or_skip(layer, root, replace(options, resume=True))
    undecided = [f"({i.reason}) {i.detail}" for i in found.iterations if i.reason in UNDECIDED]
    if undecided:
        pytest.skip(f"the machine is too noisy: {undecided}")
    return Finished(root, folder / "out", before, found, layer, killed)


def _run_or_skip(layer: Proposals, root: Path, options: RunOptions) -> RunReport:
    try:
        return run_with(layer, root, options)
    except Inconclusive as error:
        pytest.skip(f"the machine is too noisy: {error.message}")


def test_a_run_that_was_killed_after_a_look_goes_on_with_what_it_had(finished):
    entries = journal.read(finished.out / "journal.jsonl")
    assert finished.killed[-1].kind == "look"
    assert entries[: len(finished.killed)] == finished.killed
    assert [entry.kind for entry in entries].count("resumed") == 1
    assert blocks_of(entries, 1)


def test_a_plain_gain_is_accepted_by_every_gate(finished):
    (iteration,) = finished.report.iterations
    assert (iteration.verdict, iteration.reason) == (Verdict.ACCEPTED, "gain_confirmed")
    assert [(gate.name, gate.result) for gate in iteration.gates] == [
        (name, "pass")
        for name in (
            *("paths", "refusals", "correctness", "memory", "burst", "gain", "commit", "confirm"),
            *("cost", "voids", "neighbours"),
        )
    ]
    assert iteration.costs is not None
    assert iteration.costs.launches == len({p.launch for p in iteration.pairs}) + verify.CONFIRMING
    assert iteration.costs.candidate.memory_end_mib is not None
    assert iteration.files_changed == [FEATURES]
    assert [(row.output, row.differing, row.limit) for row in iteration.equivalence] == [
        ("score", 0, None)
    ]
    assert iteration.end_to_end is not None
    assert iteration.end_to_end.throughput_ratio > 1.3
    ended = "1 pull request; stopped: no hypothesis is left that could beat the noise floor"
    assert finished.report.conclusion.startswith(ended)
    # The load generator, not this stack, may be the limit of a rate: then the run says so.
    missing = finished.report.total is None
    assert missing == ("; the total could not be measured: " in finished.report.conclusion)


def test_the_pull_request_holds_patch_evidence_and_plots(finished):
    (pull,) = finished.report.pull_requests
    branch = "fvec/features/rank-by-search-tiny_features"
    assert (pull.number, pull.branch, pull.base, pull.iterations) == (1, branch, "main", [1])
    assert Path(pull.body) == finished.pull / "body.md"
    assert pull.title.startswith("features: Rank by binary search (")
    assert "**Rank by binary search: " in (finished.pull / "body.md").read_text()
    evidence = EvidenceFile.model_validate_json((finished.pull / "evidence.json").read_bytes())
    assert evidence.iteration == finished.report.iterations[0]
    seen = {(b.launch, b.measure) for b in evidence.blocks if b.void is None}
    last = max(launch for launch, _ in seen)  # how many looks it takes is the machine's matter
    assert {launch for launch, measure in seen if measure == "work"} == set(range(1, last + 1))
    commit = last + 1 - verify.CONFIRMING  # the first of the launches that confirm the gain
    assert {launch for launch, measure in seen if measure == "tail"} == {commit}
    assert commit >= 2  # one finds it
    assert list((finished.pull / "plots").glob("*.svg"))


def test_the_patch_applies_to_the_base_and_the_branch_is_that_patch(finished, tmp_path):
    (iteration,) = finished.report.iterations
    assert iteration.branch is not None
    assert git(finished.root, "rev-parse", iteration.branch) == iteration.commit
    git(finished.root, "worktree", "add", "--detach", str(tmp_path / "base"), "main")
    git(tmp_path / "base", "apply", str(finished.pull / "patch.diff"))
    git(tmp_path / "base", "diff", "--exit-code", iteration.branch)
    git(finished.root, "worktree", "remove", "--force", str(tmp_path / "base"))


def test_the_checkout_itself_is_untouched(finished):
    head, branches, status = state_of(finished.root)
    assert (head, status) == (finished.before[0], "")
    added = set(branches.split()) - set(finished.before[1].split())
    assert added == {
        "refs/heads/fvec/features/rank-by-search-tiny_features",
        "refs/heads/fvec/knowledge",
    }
    assert git(finished.root, "worktree", "list").count("\n") == 0


def test_the_report_is_the_fold_of_the_journal(finished):
    entries = journal.read(finished.out / "journal.jsonl")
    written = RunReport.model_validate_json((finished.out / "run.json").read_bytes())
    assert report.fold(entries) == finished.report == written


def test_a_journal_cut_anywhere_folds_to_a_valid_report(finished):
    entries = journal.read(finished.out / "journal.jsonl")
    for end in range(1, len(entries)):
        cut = report.fold(entries[:end])
        assert cut.conclusion == "killed before the end"
        assert cut.run_id == finished.report.run_id


def test_the_html_report_loads_nothing_from_elsewhere(finished):
    html = (finished.out / "report.html").read_text()
    loaded = [word for word in html.split() if word.startswith(("src=", "href="))]
    assert [word for word in loaded if "http" in word or "//" in word] == []
    assert "@import" not in html
    assert "url(http" not in html


def test_what_was_learned_is_on_the_knowledge_branch(finished):
    path = "knowledge/cookbook/features/rank-by-search.yaml"
    assert finished.report.knowledge.model_dump() == {
        "branch": "fvec/knowledge",
        "cards_changed": [path],
        "problems": [],
    }
    text = git(finished.root, "show", f"fvec/knowledge:{path}")
    assert text.startswith(proposals.CARD.rstrip())
    assert "verdict: accepted" in text
    assert git(finished.root, "diff", "--name-only", "main", "fvec/knowledge") == path


def test_after_the_merge_there_is_nothing_to_try(finished, tmp_path):
    merged = tmp_path / "merged"
    subprocess.run(["git", "clone", "--quiet", finished.root, merged], check=True)
    git(merged, "merge", "--quiet", f"origin/{finished.report.iterations[0].branch}")
    git(merged, "merge", "--quiet", "--message", "Learn", "origin/fvec/knowledge")
    before = state_of(merged)
    found = _run_or_skip(finished.layer, merged, options_of(finished.layer, tmp_path / "out"))
    assert found.conclusion == (
        "no pull request; nothing to try: no card of the cookbook matches this stack"
    )
    assert (found.iterations, found.pull_requests) == ([], [])
    assert state_of(merged) == before
