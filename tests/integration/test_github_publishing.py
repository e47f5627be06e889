"""Real results published to a GitHub on loopback: what people see, and what they decide."""

import json
import re

import pytest

from bot.github.auth import TokenCredentials
from bot.github.client import connect
from bot.github.forge import GitHubForge
from bot.github.stacking import restack
from bot.github.transport import Remote
from bot.publishing.github import publish_results, recorded
from layers.evidence import EvidenceFile, RunReport
from layers.repository import git
from tests.github.fake_github import FakeGitHub
from tests.github.recorded_results import (
    CLOCK,
    EVIDENCE,
    FIRST,
    SECOND,
    Ran,
    checks,
    comments,
    forge_of,
    kinds,
    publish,
    pull,
    push_base,
    state,
)

pytest_plugins = ["tests.github.fixtures", "tests.github.recorded_fixtures"]
pytestmark = pytest.mark.usefixtures("drawn_once")

MARKER = "<!-- fvec:pull -->"
MANIFEST = ".github/fvec.yml"


# What people see


def test_a_run_becomes_draft_pull_requests_that_stand_on_one_another(
    ran: Ran, github: FakeGitHub
) -> None:
    published = publish(ran, github)

    assert kinds(published) == [("opened", FIRST, 1), ("opened", SECOND, 2)]
    assert [one.base for one in published] == ["main", FIRST]
    assert [one.iterations for one in published] == [(1,), (2,)]
    assert [one.url for one in published] == [
        f"{github.url}/{github.full_name}/pull/{number}" for number in (1, 2)
    ]
    assert github.branches() == {
        "main": ran.base,
        FIRST: ran.commit(1),
        SECOND: ran.commit(2),
        EVIDENCE: github.sha(EVIDENCE),
    }
    for number, branch, base in ((1, FIRST, "main"), (2, SECOND, FIRST)):
        shown = pull(github, number)
        assert (shown["head"]["ref"], shown["base"]["ref"]) == (branch, base)
        assert (shown["state"], shown["draft"]) == ("open", True)
        assert shown["user"]["login"] == github.login
        assert shown["title"] == published[number - 1].title
        assert github.labels(number) == ["fvec"]
        assert comments(github, number) == []
        assert checks(github, ran.commit(number)) == [("fvec", "verdict", "success")]


def test_a_body_is_rendered_anew_and_says_what_it_stands_on(ran: Ran, github: FakeGitHub) -> None:
    (ran.pull(1) / "body.md").write_text("poisoned\n")
    (ran.pull(1) / "plots" / "pairs.svg").write_text("<svg onload='poisoned'/>")

    publish(ran, github)

    first, second = (pull(github, number)["body"] for number in (1, 2))
    assert first.startswith(f"{MARKER}\n\n**Look up all inputs in one pass")
    assert f"\n\nMeasured on commit `{ran.base}` of `main`.\n\n## Notes\n\n- " in first
    assert f"Stacked on #1. Measured on commit `{ran.commit(1)}`, the head of" in second
    assert "ads-ranking-team answers for it." in first
    assert "`/fvec rerun`" in first
    assert "`/fvec recreate`" in first
    assert "`/fvec help`" in first
    sha = re.findall(r"/blob/([0-9a-f]{40})/", first)
    folder = f"{github.url}/{github.full_name}/blob/{sha[0]}/pulls/{FIRST}"
    assert set(sha) == {sha[0]}
    assert f"[evidence.json]({folder}/evidence.json?raw=true)" in first
    assert f"]({folder}/plots/pairs.svg?raw=true)" in first
    assert "poisoned" not in first
    assert "poisoned" not in github.git("show", f"{EVIDENCE}:pulls/{FIRST}/plots/pairs.svg")


def test_the_evidence_branch_holds_what_was_measured_and_what_was_pushed(
    ran: Ran, github: FakeGitHub
) -> None:
    publish(ran, github)

    archive = forge_of(github).archive
    folder = f"pulls/{FIRST}"
    names = github.git("ls-tree", "-r", "--name-only", EVIDENCE, f"{folder}/").split()
    assert [name.removeprefix(f"{folder}/") for name in names] == [
        "body.md",
        "evidence.json",
        "patch.diff",
        "plots/latency.svg",
        "plots/pairs.svg",
        "plots/time.svg",
        "publication.json",
    ]
    kept = EvidenceFile.model_validate_json(archive.get(f"{folder}/evidence.json") or b"")
    assert kept == EvidenceFile.model_validate_json((ran.pull(1) / "evidence.json").read_bytes())
    assert archive.get(f"{folder}/patch.diff") == (ran.pull(1) / "patch.diff").read_bytes()
    assert archive.state().pushed == {FIRST: ran.commit(1), SECOND: ran.commit(2)}
    assert archive.state().analysis is None
    assert github.git("rev-list", "--max-parents=0", EVIDENCE).split() != [ran.base]


def test_publishing_again_writes_nothing(ran: Ran, github: FakeGitHub) -> None:
    publish(ran, github)
    before, writes = state(github), len(github.writes)

    again = publish(ran, github)

    assert kinds(again) == [("unchanged", FIRST, 1), ("unchanged", SECOND, 2)]
    assert len(github.writes) == writes
    assert state(github) == before


def test_the_run_s_report_gets_the_pull_requests_beside_the_local_ones(
    ran: Ran, github: FakeGitHub
) -> None:
    report = RunReport.model_validate(ran.run)

    told = recorded(report, publish(ran, github))

    assert told.pull_requests[:2] == report.pull_requests
    assert [(p.forge, p.number, p.branch, p.base) for p in told.pull_requests[2:]] == [
        ("github", 1, FIRST, "main"),
        ("github", 2, SECOND, FIRST),
    ]
    assert recorded(told, publish(ran, github)) == told


def test_what_is_published_keeps_to_github_s_description(ran: Ran, wired: FakeGitHub) -> None:
    push_base(wired, ran)
    credentials = TokenCredentials(wired.token, login=wired.login)
    client = connect(credentials, throttle=False, clock=CLOCK)
    remote = Remote(wired.git_url, credentials)
    forge = GitHubForge(client.repository(wired.full_name), remote)

    assert kinds(publish_results(ran.out, ran.root, forge)) == [
        ("opened", FIRST, 1),
        ("opened", SECOND, 2),
    ]


def test_a_personal_token_publishes_without_a_check_run(ran: Ran, github: FakeGitHub) -> None:
    ran.keep(1)
    credentials = TokenCredentials(github.token_of("maintainer"), api_url=github.url)
    client = connect(credentials, throttle=False, clock=CLOCK)
    remote = Remote(github.git_url, credentials)
    forge = GitHubForge(client.repository(github.full_name), remote)

    (published,) = publish_results(ran.out, ran.root, forge)

    assert (published.kind, published.number) == ("opened", 1)
    assert published.detail.startswith("without a check run: ")
    assert pull(github, 1)["user"]["login"] == "maintainer"
    assert [one.kind for one in publish_results(ran.out, ran.root, forge)] == ["unchanged"]


# Bases that move


def test_a_base_that_moved_in_what_is_served_turns_the_check_neutral(
    ran: Ran, github: FakeGitHub
) -> None:
    ran.keep(1)
    now = github.commit({"models/features/1/model.py": "faster = True\n"})

    assert kinds(publish(ran, github)) == [("opened", FIRST, 1)]
    (check,) = github.check_runs(ran.commit(1))
    assert check["conclusion"] == "neutral"
    assert check["output"]["title"] == f"Measured on {ran.base[:10]}; main has moved"
    assert now[:10] in check["output"]["summary"]


def test_a_base_that_moved_elsewhere_does_not(ran: Ran, github: FakeGitHub) -> None:
    ran.keep(1)
    github.commit({"README.md": "# Ads\n"})

    publish(ran, github)

    assert checks(github, ran.commit(1)) == [("fvec", "verdict", "success")]


def test_a_detached_commit_s_pull_requests_go_to_the_default_branch(
    ran: Ran, github: FakeGitHub
) -> None:
    ran.keep(1)
    ran.change(ran.pull(1) / "meta.json", lambda d: d.update(base=ran.base))
    ran.change(ran.out / "run.json", lambda d: d["pull_requests"][0].update(base=ran.base))

    assert [one.base for one in publish(ran, github)] == ["main"]


@pytest.mark.parametrize("method", ["merge", "squash"])
def test_a_stacked_pull_request_follows_when_its_base_is_merged_as_measured(
    ran: Ran, github: FakeGitHub, method: str
) -> None:
    publish(ran, github)
    github.merge(1, method=method)

    again = publish(ran, github)

    assert kinds(again) == [("updated", SECOND, 2), ("merged", FIRST, 1), ("unchanged", SECOND, 2)]
    assert pull(github, 2)["base"]["ref"] == "main"
    assert checks(github, ran.commit(2)) == [("fvec", "verdict", "success")]
    assert restack(ran.root, forge_of(github)) == []


def test_a_stacked_pull_request_whose_base_was_merged_otherwise_stays_and_says_so(
    ran: Ran, github: FakeGitHub
) -> None:
    publish(ran, github)
    github.commit_to_pull(1, {"models/features/1/model.py": "by = 'hand'\n"})
    github.merge(1)

    followed = restack(ran.root, forge_of(github))

    assert [(one.pull.number, one.base, one.followed) for one in followed] == [(2, "main", "moved")]
    assert pull(github, 2)["base"]["ref"] == FIRST
    (check,) = github.check_runs(ran.commit(2))
    assert check["conclusion"] == "neutral"
    assert check["output"]["title"].startswith("Its base was merged otherwise")
    assert restack(ran.root, forge_of(github)) == []


def test_the_bot_commits_to_nothing_but_its_own_branches(ran: Ran, github: FakeGitHub) -> None:
    publish(ran, github)

    assert github.sha("main") == ran.base
    assert git.tip(ran.root, "main") == ran.base
    kept = git.git(ran.root, "for-each-ref", "--format=%(refname)", "refs/fvec")
    assert kept == ""
    assert json.loads(github.git("show", f"{EVIDENCE}:state.json"))["schema"] == "fvec.state/1"
