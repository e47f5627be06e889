"""Real runs, killed and gone on with: on real servers, with real blocks.

One that is killed after its first look is the run that `test_run_tiny` looks at.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from layers.errors import Inconclusive
from layers.evidence import Verdict
from layers.loop.report import blocks_of
from layers.record import journal
from tests.e2e import proposals
from tests.e2e.killed import killed_after
from tests.e2e.proposals import FEATURES, Proposals, git, options_of, replaced, run_with

pytestmark = [
    pytest.mark.triton,
    pytest.mark.alone,
    pytest.mark.live,
    pytest.mark.usefixtures("short_runs"),
]
BRANCH = "fvec/features/rank-by-search-tiny_features"


def _layer() -> Proposals:
    return Proposals(
        {"rank-by-search": lambda stack: replaced(stack, FEATURES, *proposals.SEARCHED)}
    )


@pytest.mark.parametrize("kind", ["calibration", "iteration", "totals", "pull_request"])
def test_a_live_run_that_was_killed_goes_on_to_its_pull_request(tmp_path, kind):
    root, out = proposals.slow_repository(tmp_path / "tiny"), tmp_path / "out"
    (tmp_path / "cards").mkdir()
    (tmp_path / "cards/rank-by-search.yaml").write_text(proposals.CARD)
    options = options_of(_layer(), out, tmp_path / "cards")
    killed_after(kind, _layer(), root, options)
    before = journal.read(out / "journal.jsonl")
    try:
        report = run_with(_layer(), root, replace(options, resume=True))
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
    assert [entry.kind for entry in entries].count(kind) == 1
    assert blocks_of(entries, 1)
