"""An accepted change that no longer pays on top of the others, over a replayed run: it goes again."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest

from bot.publishing.local import open_local
from layers.events import Silent
from layers.evidence import EvidenceFile, Verdict
from layers.registry import LAYERS
from layers.run import RunOptions, run
from tests.survival import world
from tests.survival.replay import Recording, opener
from tests.survival.test_runs_in_a_row import OfRecorded

FIRST, SECOND = "lookups-one-pass on features", "native-string-tensors on features"


class Cut(BaseException):
    """The process ends here."""


@pytest.fixture
def root(tmp_path):
    return world.repository(tmp_path / "ads")


def once(root, out, *, resume=False, cut=False):
    """Run; the first accepted change does not pay on top of the second."""

    @contextmanager
    def opened(*arguments):
        with opener(Recording.read())(*arguments) as instruments:
            real = instruments.remeasure

            def remeasure(candidate, without, end, n):
                again = real(candidate, without, end, n)
                last = again.looks[-1]
                told = {"decision": "reject", "reason": "below_noise_floor", "estimate": 1.001}
                looks = [*again.looks[:-1], last.model_copy(update=told)]
                update = {"looks": looks, "verdict": "rejected", "reason": "below_noise_floor"}
                return again.model_copy(update=update) if n == 1 else again

            def total(end):
                raise Cut

            instruments.remeasure = remeasure
            if cut:
                instruments.total = total
            yield instruments

    options = RunOptions(out, None, None, 0, None, open_local, resume=resume)
    layers = {name: OfRecorded(layer) for name, layer in LAYERS.items()}
    return run(root, options, Silent(), layers, opened)


def branches(root):
    return world.git(root, "for-each-ref", "--format=%(refname:short)", "refs/heads/fvec").split()


def test_it_is_taken_out_and_the_other_stands_alone(root, tmp_path):
    report = once(root, tmp_path / "out")
    first, second = report.iterations[:2]
    assert (first.verdict, first.reason) == (Verdict.REJECTED, "no_gain_on_top_of_others")
    assert SECOND in first.detail
    assert second.verdict is Verdict.ACCEPTED
    assert [(found.n, found.verdict, found.others) for found in report.on_top] == [
        (1, "dropped", [2]),
        (2, "pays", []),
    ]
    (pull,) = report.pull_requests
    assert (pull.base, pull.iterations) == ("main", [2])
    assert branches(root) == [
        "fvec/knowledge",
        "fvec/server/native-string-tensors-features",
    ]
    log = world.git(root, "rev-list", "--count", f"main..{pull.branch}")
    assert log.strip() == "1"
    assert "_inputs_by_name" not in world.git(
        root, "show", f"{pull.branch}:models/features/1/model.py"
    )


def test_its_evidence_is_of_the_commit_that_is_published_and_says_so(root, tmp_path):
    report = once(root, tmp_path / "out")
    (pull,) = report.pull_requests
    file = next((tmp_path / "out" / "forge").rglob("evidence.json"))
    evidence = EvidenceFile.model_validate_json(file.read_bytes())
    assert evidence.iteration.commit == world.git(root, "rev-parse", pull.branch).strip()
    assert evidence.iteration.base_commit == world.git(root, "rev-parse", "main").strip()
    assert any("taken out afterwards" in line for line in evidence.iteration.warnings)
    assert evidence.on_top is not None
    assert (evidence.on_top.n, evidence.on_top.others) == (2, [])


def test_the_cards_do_not_call_it_accepted(root, tmp_path):
    once(root, tmp_path / "out")
    names = world.git(root, "ls-tree", "-r", "--name-only", "fvec/knowledge", "knowledge").split()
    card = next(name for name in names if name.endswith("lookups-one-pass.yaml"))
    text = world.git(root, "show", f"fvec/knowledge:{card}")
    assert "verdict: accepted" not in text
    assert "reason: no_gain_on_top_of_others" in text
    assert f"{SECOND}" in text


def test_a_run_that_was_cut_after_it_goes_on_to_the_same_result(root, tmp_path):
    whole = once(root, tmp_path / "whole")
    left = branches(root), world.git(root, "rev-parse", *branches(root))
    other = world.repository(tmp_path / "again" / "ads")
    with pytest.raises(Cut):
        once(other, tmp_path / "again" / "out", cut=True)
    resumed = once(other, tmp_path / "again" / "out", resume=True)
    assert resumed.on_top == whole.on_top
    assert resumed.iterations == whole.iterations
    assert (branches(other), world.git(other, "rev-parse", *branches(other))) == left
    kinds = [
        json.loads(line)["kind"]
        for line in (tmp_path / "again" / "out" / "journal.jsonl").read_text().splitlines()
    ]
    assert (kinds.count("on_top"), kinds.count("taken_out")) == (2, 1)
