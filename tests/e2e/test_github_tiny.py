"""From a signed webhook to a draft pull request, and a rerun of it: GitHub on loopback, a real Triton."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bot.service.database import Database
from bot.service.store import Store
from tests.e2e import proposals
from tests.github.bot_service import BotService
from tests.undecided import UNDECIDED

pytest_plugins = ["tests.github.fixtures"]
pytestmark = [pytest.mark.triton, pytest.mark.alone, pytest.mark.usefixtures("server_env")]

SHORT = Path(__file__).with_name("short_fvec.py")
BRANCH = "fvec/features/rank-by-search-tiny_features"
BOT = """\
layers: [features]
bot: {jitter_minutes: 0}
"""


@pytest.fixture
def store(tmp_path):
    database = Database(tmp_path / "jobs.sqlite3")
    yield Store(database)
    database.close()


@pytest.fixture
def github(wired, tmp_path):
    """GitHub with the slow stack on its default branch, the manifest merged."""
    root = proposals.slow_repository(tmp_path / "tiny")
    names = proposals.git(root, "ls-files").splitlines()
    files: dict[str, str] = {name: (root / name).read_text() for name in names}
    files[".github/fvec.yml"] += BOT
    files["knowledge/cookbook/features/rank-by-search.yaml"] = proposals.CARD
    wired.seed(files)
    return wired


def too_noisy(reports: Path) -> list[str]:
    """Return what the runs with a report in a folder left undecided, by reason."""
    runs = [json.loads(path.read_text()) for path in reports.glob("*.json")]
    reasons = [each["reason"] for run in runs for each in run["iterations"]]
    return [reason for reason in reasons if reason in UNDECIDED]


def test_a_release_becomes_a_draft_and_a_rerun_brings_its_check_up_to_date(github, store, tmp_path):
    reports = tmp_path / "reports"
    program = (sys.executable, str(SHORT), str(reports))
    service = BotService(github, store, tmp_path / "work", fvec=program)
    github.release("v1")
    service.deliver(github.events.release("v1"))

    told = service.jobs()
    assert [(kind, state) for kind, state, _ in told] == [("decide", "done"), ("analyse", "done")]
    changes = [pull for pull in github.pulls() if pull["head"]["ref"] == BRANCH]
    if not changes and (noise := too_noisy(reports)):
        pytest.skip(f"the machine is too noisy: {noise}")
    (pull,) = changes
    assert (pull["state"], pull["draft"], pull["base"]["ref"]) == ("open", True, "main")
    assert "**Rank by binary search: " in pull["body"]
    assert "/fvec rerun" in pull["body"]
    head = pull["head"]["sha"]
    assert github.sha(BRANCH) == head
    assert [(run["name"], run["conclusion"]) for run in github.check_runs(head)] == [
        ("fvec", "success")
    ]
    assert github.sha("fvec/evidence") is not None
    knowledge = [pull for pull in github.pulls() if pull["head"]["ref"] == "fvec/knowledge"]
    assert len(knowledge) == 1

    comment = github.comment(pull["number"], "/fvec rerun", login="maintainer")
    service.deliver(github.events.comment(comment))

    kinds = [(kind, state) for kind, state, _ in service.jobs()][2:]
    assert kinds == [("decide", "done"), ("rerun", "done")]
    assert "rocket" in github.reactions(comment)
    ours = [c for c in github.comments(pull["number"]) if c["user"]["login"] == github.login]
    assert len(ours) == 1
    assert head[:10] in ours[0]["body"]
    runs = github.check_runs(head)
    assert len({run["name"] for run in runs}) == len(runs)
    assert {run["conclusion"] for run in runs} <= {"success", "neutral"}
    assert not any(call.path.endswith("/merge") for call in github.requests)
