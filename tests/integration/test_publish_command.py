"""`fvec publish`, and `fvec run --forge github`, as a person or a workflow calls them."""

import json
import os
from pathlib import Path

import pytest

from bot import cli
from bot.github import api
from layers.repository import git
from tests.github.fake_github import FakeGitHub
from tests.github.recorded_results import FIRST, SECOND, Ran, kinds, publish
from tests.survival import world

pytest_plugins = ["tests.github.recorded_fixtures"]
pytestmark = pytest.mark.usefixtures("drawn_once")

OWN = ("FVEC_GITHUB_TOKEN", "FVEC_GITHUB_LOGIN", "FVEC_GITHUB_API_URL")


@pytest.fixture(autouse=True)
def environment(github: FakeGitHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The bot's credentials for the GitHub on loopback, and none of its pauses."""
    monkeypatch.setenv("FVEC_GITHUB_TOKEN", github.token)
    monkeypatch.setenv("FVEC_GITHUB_LOGIN", github.login)
    monkeypatch.setenv("FVEC_GITHUB_API_URL", github.url)
    monkeypatch.setenv("GITHUB_SERVER_URL", github.url)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(api, "_SECONDS_BETWEEN_REQUESTS", 0)
    monkeypatch.setattr(api, "_SECONDS_BETWEEN_WRITES", 0)
    monkeypatch.chdir(tmp_path)


def command(ran: Ran, github: FakeGitHub, *more: str, stack: Path | None = None) -> list[str]:
    where = ["--repository", github.full_name, "--stack", str(stack or ran.root)]
    return ["publish", str(ran.out), *where, *more]


def test_publish_prints_one_document(
    ran: Ran, github: FakeGitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    ran.keep(1)

    assert cli.main(command(ran, github, "--json")) == 0

    document = json.loads(capsys.readouterr().out)
    (shown,) = github.pulls()
    assert document == {
        "schema": "fvec.publish/1",
        "repository": "owner/serve",
        "pull_requests": [
            {
                "became": "opened",
                "number": 1,
                "branch": FIRST,
                "base": "main",
                "title": shown["title"],
                "url": f"{github.url}/owner/serve/pull/1",
                "iterations": [1],
                "detail": "",
            }
        ],
    }


def test_publish_shows_people_what_became_of_each(
    ran: Ran, github: FakeGitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(ran, github)
    github.close(2)

    assert cli.main(command(ran, github)) == 0

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["#", "became", "pull", "request", "why"] in lines
    assert any(line[:2] == ["1", "unchanged"] for line in lines)
    assert any(line[:2] == ["2", "closed"] and "means" in line for line in lines)
    assert [f"{github.url}/owner/serve/pull/1"] in lines


def test_branches_that_another_machine_made_come_in_a_bundle(
    ran: Ran, github: FakeGitHub, tmp_path: Path
) -> None:
    bundle, elsewhere = tmp_path / "branches.bundle", tmp_path / "elsewhere"
    spans = [f"{ran.base}..{FIRST}", f"{ran.base}..{SECOND}"]
    git.git(ran.root, "bundle", "create", "--quiet", str(bundle), *spans)
    plain = ("--quiet", "--single-branch", "--no-local")  # with the objects of main alone
    world.git(tmp_path, "clone", *plain, str(ran.root), str(elsewhere))
    world.git(elsewhere, "checkout", "--quiet", "main")
    argv = command(ran, github, stack=elsewhere)

    assert cli.main(argv) == 3
    assert cli.main([*argv, "--bundle", str(bundle)]) == 0
    assert github.sha(SECOND) == ran.commit(2)


def test_a_bundle_of_none_of_several_results_is_refused(
    ran: Ran, github: FakeGitHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = command(ran, github, "--bundle", str(tmp_path / "far" / "branches.bundle"))

    assert cli.main([argv[0], str(tmp_path / "other" / "results"), *argv[1:]]) == 3
    assert "lies beside none of the results" in capsys.readouterr().err


def test_recreate_starts_over_what_was_closed(ran: Ran, github: FakeGitHub) -> None:
    ran.keep(1)
    publish(ran, github)
    github.close(1)

    assert cli.main(command(ran, github, "--recreate")) == 0

    assert [p["head"]["ref"] for p in github.pulls()] == [FIRST, f"{FIRST}-2"]


def test_without_credentials_it_says_how_to_get_them(
    ran: Ran,
    github: FakeGitHub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("FVEC_GITHUB_TOKEN")

    assert cli.main(command(ran, github)) == 4
    assert "set FVEC_GITHUB_TOKEN" in capsys.readouterr().err
    assert github.requests == []


def test_the_token_is_in_no_message(
    ran: Ran, github: FakeGitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    github.faults.add("403 permission", "POST", "*/pulls", times=5)

    assert cli.main(command(ran, github, "--json")) == 70

    told = capsys.readouterr()
    assert "pull requests: write" in told.err
    assert github.token not in told.err + told.out


# A run that publishes when it has ended


def test_a_run_publishes_when_it_has_ended_and_measures_without_credentials(
    github: FakeGitHub,
    replayed: list[dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root, out = world.repository(tmp_path / "ads"), tmp_path / "out"
    monkeypatch.setenv("GITHUB_TOKEN", "canary")
    before = dict(os.environ)
    argv = ["run", str(root), "--out", str(out), "--forge", "github", "--json"]

    assert cli.main([*argv, "--repository", github.full_name]) == 0

    document = json.loads(capsys.readouterr().out)
    assert [(p["forge"], p["number"], p["branch"]) for p in document["pull_requests"]] == [
        ("local", 1, FIRST),
        ("local", 2, SECOND),
        ("github", 1, FIRST),
        ("github", 2, SECOND),
    ]
    assert json.loads((out / "run.json").read_text()) == document
    assert kinds(publish(Ran(root, out), github)) == [
        ("unchanged", FIRST, 1),
        ("unchanged", SECOND, 2),
    ]
    (environment,) = replayed
    assert not {*OWN, "GITHUB_TOKEN"}.intersection(environment)
    assert "PATH" in environment
    assert dict(os.environ) == before


def test_a_run_that_could_not_publish_says_how_to_go_on(
    github: FakeGitHub,
    replayed: list[dict[str, str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root, out = world.repository(tmp_path / "ads"), tmp_path / "out"
    github.faults.add("403 permission", "POST", "*/pulls", times=5)
    argv = ["run", str(root), "--out", str(out), "--forge", "github"]

    assert cli.main([*argv, "--repository", github.full_name]) == 70

    told = capsys.readouterr().err
    again = f"fvec publish {out} --repository {github.full_name} --stack {root}"
    assert f"the results are kept: `{again}` publishes them" in told
    github.faults.clear()
    assert cli.main(again.split()[1:]) == 0
    assert [p["head"]["ref"] for p in github.pulls()] == [FIRST, SECOND]


@pytest.mark.parametrize(
    ("more", "absent", "code"),
    [
        (["--forge", "github"], None, 2),
        (["--repository", "owner/serve"], None, 2),
        (["--forge", "github", "--repository", "owner/serve"], "FVEC_GITHUB_TOKEN", 4),
        (["--forge", "github", "--repository", "../serve"], None, 3),
    ],
)
def test_what_could_not_be_published_is_told_before_anything_is_measured(
    more: list[str],
    absent: str | None,
    code: int,
    replayed: list[dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if absent is not None:
        monkeypatch.delenv(absent)

    assert cli.main(["run", str(tmp_path), *more]) == code
    assert replayed == []
