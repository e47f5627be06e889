"""Real runs, killed and gone on with: on real servers, with real blocks."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import pytest

from bot.publishing.local import open_local
from layers.errors import Inconclusive
from layers.events import Silent
from layers.evidence import Verdict
from layers.loop.report import blocks_of
from layers.record import journal
from layers.run import RunOptions, run
from tests.e2e import proposals
from tests.e2e.proposals import FEATURES, Proposals, git, replaced

pytestmark = [pytest.mark.triton, pytest.mark.usefixtures("short_runs")]
BRANCH = "fvec/features/rank-by-search-tiny_features"


MORE_KINDS = ("calibration", "iteration", "totals", "pull_request")


def _layer() -> Proposals:
    return Proposals(
        {"rank-by-search": lambda stack: replaced(stack, FEATURES, *proposals.SEARCHED)}
    )


def _killed_after(kind: str, root, options: RunOptions) -> None:
    """Run in a process of its own, which is killed once the journal holds such an entry."""
    pid = os.fork()
    if pid == 0:
        real = journal.Journal.append

        def append(self, now, data):
            entry = real(self, now, data)
            if now == kind:
                os.kill(os.getpid(), signal.SIGKILL)
            return entry

        journal.Journal.append = append
        try:
            run(root, options, Silent(), {_layer().name: _layer()})
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    if not os.WIFSIGNALED(status):
        pytest.skip(f"the run ended before its first {kind}: the machine is too noisy")


KINDS = ["look", *(pytest.param(k, marks=pytest.mark.live) for k in MORE_KINDS)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_live_run_that_was_killed_goes_on_to_its_pull_request(tmp_path, kind):
    root, out = proposals.slow_repository(tmp_path / "tiny"), tmp_path / "out"
    (tmp_path / "cards").mkdir()
    (tmp_path / "cards/rank-by-search.yaml").write_text(proposals.CARD)
    layer = _layer()
    cards = tmp_path / "cards"
    options = RunOptions(out, (layer.name,), 60, 7, cards, open_local)
    _killed_after(kind, root, options)
    before = journal.read(out / "journal.jsonl")
    try:
        report = run(root, replace(options, resume=True), Silent(), {layer.name: layer})
    except Inconclusive as error:
        pytest.skip(f"the machine is too noisy: {error.message}")
    (iteration,) = report.iterations
    if iteration.verdict is Verdict.INCONCLUSIVE:
        pytest.skip(f"the machine is too noisy: {iteration.detail}")
    assert (iteration.verdict, iteration.reason) == (Verdict.ACCEPTED, "gain_confirmed")
    assert git(root, "rev-parse", BRANCH) == iteration.commit
    assert len(report.pull_requests) == 1
    entries = journal.read(out / "journal.jsonl")
    assert entries[: len(before)] == before
    assert [entry.kind for entry in entries].count("resumed") == 1
    assert kind == "look" or [entry.kind for entry in entries].count(kind) == 1
    assert blocks_of(entries, 1)
