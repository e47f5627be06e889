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
pytestmark = [
    pytest.mark.timeout(900),  # two whole measurements, of more launches where the machine is noisy
    pytest.mark.triton,
    pytest.mark.alone,
    pytest.mark.usefixtures("server_env"),
]

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


def ends(reports: Path) -> list[tuple[str, str]]:
    """Return reason and detail of all that was judged, by the reports in a folder."""
    found = [json.loads(path.read_text()) for path in reports.glob("*.json")]
    judged = [one for report in found for one in report.get("iterations", [report])]
    return [(one["reason"], one["detail"]) for one in judged]


def skip_where_noise_decides(service: BotService, reports: Path) -> None:
    """Skip where a measurement was given up, or could not decide: it shows nothing here."""
    given_up = [why for _, state, why in service.jobs() if state == "failed" and "void" in why]
    noise = given_up + [reason for reason, _ in ends(reports) if reason in UNDECIDED]
    if noise:
        pytest.skip(f"the machine is too noisy: {noise}")


def test_a_release_becomes_a_draft_and_a_rerun_brings_its_check_up_to_date(github, store, tmp_path):
    reports = tmp_path / "reports"
    program = (sys.executable, str(SHORT), str(reports))
    service = BotService(github, store, tmp_path / "work", fvec=program)
    github.release("v1")
    service.deliver(github.events.release("v1"))

    skip_where_noise_decides(service, reports)
    told = service.jobs()
    assert [(kind, state) for kind, state, _ in told] == [("decide", "done"), ("analyse", "done")]
    changes = [pull for pull in github.pulls() if pull["head"]["ref"] == BRANCH]
    assert len(changes) == 1, ends(reports)
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

    skip_where_noise_decides(service, reports)
    kinds = [(kind, state) for kind, state, _ in service.jobs()][2:]
    assert kinds == [("decide", "done"), ("rerun", "done")]
    assert "rocket" in github.reactions(comment)
    ours = [c for c in github.comments(pull["number"]) if c["user"]["login"] == github.login]
    assert len(ours) == 1
    assert head[:10] in ours[0]["body"]
    runs = github.check_runs(head)
    assert len({run["name"] for run in runs}) == len(runs)
    assert {run["conclusion"] for run in runs} <= {"success", "neutral"}, ends(reports)
    assert not any(call.path.endswith("/merge") for call in github.requests)
