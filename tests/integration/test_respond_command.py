"""`fvec respond` as a workflow runs it: decided, measured and told by three commands."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bot import cli
from bot.github import api
from bot.jobs import actions, measuring, serving
from tests.github.recorded_results import FIRST, Ran
from tests.github_jobs import Bot, changes, dashboard, judged, verified

pytest_plugins = [
    "tests.github.fixtures",
    "tests.github.recorded_fixtures",
    "tests.github_jobs_fixtures",
]
pytestmark = pytest.mark.usefixtures("drawn_once")

MODEL = "models/features/1/model.py"
MANIFEST = ".github/fvec.yml"


class Workflow:
    """The environment and files of one workflow's run."""

    def __init__(self, bot: Bot, folder: Path, monkeypatch, capsys) -> None:
        self.bot, self.folder, self._env, self._capsys = bot, folder, monkeypatch, capsys
        fake = bot.fake
        for name, value in {
            "FVEC_GITHUB_TOKEN": fake.token,
            "FVEC_GITHUB_LOGIN": fake.login,
            "FVEC_GITHUB_API_URL": fake.url,
            "GITHUB_SERVER_URL": fake.url,
            "GITHUB_REPOSITORY": fake.full_name,
            "GITHUB_RUN_ID": "4711",
            "GITHUB_OUTPUT": str(folder / "output"),
        }.items():
            monkeypatch.setenv(name, value)

    def event(self, event: tuple[str, dict[str, Any]]) -> None:
        name, payload = event
        (self.folder / "event.json").write_text(json.dumps(payload))
        self._env.setenv("GITHUB_EVENT_NAME", name)
        self._env.setenv("GITHUB_EVENT_PATH", str(self.folder / "event.json"))

    def comment(self, number: int, body: str, login: str = "maintainer") -> int:
        asking = self.bot.fake.comment(number, body, login=login)
        self.event(self.bot.fake.events.comment(asking))
        return asking

    def respond(self, *argv: str, code: int = 0) -> dict[str, Any]:
        """Run the command; return what it printed."""
        got = cli.main(["respond", "--json", *argv])
        captured = self._capsys.readouterr()
        assert got == code, captured.err
        return json.loads(captured.out)

    def plan(self, *argv: str) -> dict[str, str]:
        """Run `--plan`; return the outputs of the step."""
        output = self.folder / "output"
        output.unlink(missing_ok=True)
        self.respond("--plan", "--out", str(self.folder / "request"), *argv)
        outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
        self._env.setenv("FVEC_JOB", outputs["job"])
        return outputs

    def measured(self, name: str, text: str, job: str = "whole") -> str:
        """Leave a document as a measuring job does; return its folder."""
        results = self.folder / "inbox" / f"fvec-measured-{job}" / "results"
        results.mkdir(parents=True, exist_ok=True)
        (results / name).write_text(text)
        return str(results)


@pytest.fixture
def workflow(bot: Bot, tmp_path: Path, monkeypatch, capsys) -> Workflow:
    """A run of the workflow, without the pauses that keep requests apart."""
    monkeypatch.setattr(api, "_SECONDS_BETWEEN_REQUESTS", 0)
    monkeypatch.setattr(api, "_SECONDS_BETWEEN_WRITES", 0)
    folder = tmp_path / "workflow"
    folder.mkdir()
    return Workflow(bot, folder, monkeypatch, capsys)


def writes(bot: Bot) -> int:
    return len(bot.fake.writes)


def test_an_event_that_nothing_follows_from_says_none(workflow: Workflow, bot: Bot) -> None:
    workflow.event(("workflow_run", {}))
    empty = dict.fromkeys(("sha", "number", "layers", "class", "matrix", "job"), "")
    assert workflow.plan() == {"kind": "none", "command": "none", **empty}


def test_a_release_is_measured_and_published_by_three_jobs(workflow, bot: Bot, ran: Ran) -> None:
    bot.fake.release("v2")
    workflow.event(bot.fake.events.release("v2"))
    planned = workflow.plan()
    assert (planned["kind"], planned["command"], planned["sha"]) == (
        "analyse",
        "run",
        bot.fake.sha(),
    )
    assert writes(bot) == 0

    shutil_copy(ran.out, workflow.folder / "inbox" / "whole" / "results")
    bundle = workflow.folder / "inbox" / "whole" / "branches.bundle"
    ran_git(ran, "bundle", "create", "--quiet", str(bundle), "--branches=fvec/*")
    results = str(workflow.folder / "inbox" / "whole" / "results")
    done = workflow.respond("--bundle", str(bundle), "--report", results)

    assert done["result"]["state"] == "done"
    assert [pull["head"]["ref"] for pull in changes(bot)] == [FIRST]
    assert bot.program.asked == []  # nothing was measured here


def jobs_of(planned: dict[str, str]) -> list[str]:
    return [job["name"] for job in json.loads(planned["matrix"])["include"]]


def test_the_jobs_that_a_run_is_shared_out_to_travel_with_the_order(workflow, bot: Bot) -> None:
    bot.fake.release("v2")
    workflow.event(bot.fake.events.release("v2"))
    planned = workflow.plan("--shards", "2")
    names = [f"{layer}-{n}-of-2" for layer in ("features", "server", "config") for n in (1, 2)]
    assert jobs_of(planned) == names
    assert json.loads(planned["job"])["shards"] == names
    assert jobs_of(workflow.plan()) == ["whole"]


def test_a_run_of_too_few_candidates_to_share_out_is_one_job(workflow, bot: Bot) -> None:
    manifest = bot.fake.git("show", f"main:{MANIFEST}")
    bot.fake.commit({MANIFEST: f"{manifest}\nbudget:\n  candidates: 2\n"})
    workflow.event(("workflow_dispatch", dispatched(bot)))
    assert jobs_of(workflow.plan("--shards", "2")) == ["whole"]


def dispatched(bot: Bot) -> dict[str, Any]:
    owner, _, name = bot.fake.full_name.partition("/")
    repository = {"name": name, "full_name": bot.fake.full_name, "owner": {"login": owner}}
    sender = {"login": "owner", "type": "User"}
    return {
        "inputs": None,
        "ref": "refs/heads/main",
        "repository": {**repository, "default_branch": "main"},
        "sender": sender,
    }


def test_a_shard_that_left_nothing_is_told_and_the_others_are_published(
    workflow, bot: Bot, ran: Ran
) -> None:
    bot.fake.release("v2")
    workflow.event(bot.fake.events.release("v2"))
    first, *others = jobs_of(workflow.plan("--shards", "1"))
    folder = workflow.folder / "inbox" / f"fvec-measured-{first}"
    shutil_copy(ran.out, folder / "results")
    ran_git(
        ran, "bundle", "create", "--quiet", str(folder / "branches.bundle"), "--branches=fvec/*"
    )
    left = ("--bundle", str(folder / "branches.bundle"), "--report", str(folder / "results"))
    done = workflow.respond(*left, code=70)
    assert [pull["head"]["ref"] for pull in changes(bot)] == [FIRST]
    for name in others:
        assert f"shard {name} left no results" in done["result"]["summary"]


def test_what_is_recreated_is_reported_at_the_commit_that_was_measured(workflow, bot: Bot) -> None:
    number = bot.published()
    at = bot.fake.sha()
    workflow.comment(number, "/fvec recreate")
    planned = workflow.plan()
    assert (planned["kind"], planned["sha"]) == ("recreate", at)
    assert json.loads(planned["job"])["job"]["sha"] == at


def shutil_copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, dirs_exist_ok=True)


def ran_git(ran: Ran, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(ran.root), *arguments], check=True)


def test_why_nothing_follows_is_said_on_the_dashboard(workflow, bot: Bot) -> None:
    bot.published()
    manifest = bot.fake.git("show", f"main:{MANIFEST}")
    bot.fake.commit({MANIFEST: f"{manifest}\nbot:\n  releases: false\n"})
    bot.fake.release("v2")
    workflow.event(bot.fake.events.release("v2"))
    before = writes(bot)
    planned = workflow.plan()
    assert (planned["kind"], planned["command"]) == ("said", "none")
    (told,) = workflow.respond("--dry-run")["writes"]
    assert told["write"] == "dashboard"
    assert writes(bot) == before
    workflow.respond("--report")
    assert "the manifest says `releases: false`" in dashboard(bot)


def test_a_rerun_hands_on_the_evidence_and_reports(workflow, bot: Bot, ran: Ran) -> None:
    number = bot.published()
    asking = workflow.comment(number, "/fvec rerun")
    before = writes(bot)
    planned = workflow.plan()
    head = bot.fake.pull(number).head_sha
    assert {name: planned[name] for name in ("kind", "command", "sha", "number")} == {
        "kind": "rerun",
        "command": "verify",
        "sha": head,
        "number": str(number),
    }
    assert writes(bot) == before
    request = sorted(path.name for path in (workflow.folder / "request").iterdir())
    assert request == ["evidence.json", "patch.diff"]

    text = verified(ran, 1).model_dump_json(by_alias=True)
    done = workflow.respond("--report", workflow.measured("verify.json", text))
    assert done["result"]["state"] == "done"
    (check,) = bot.fake.check_runs(head)
    assert check["conclusion"] == "success"
    assert bot.fake.reactions(asking) == ["eyes", "rocket"]


def test_an_error_of_the_measuring_job_is_told(workflow, bot: Bot) -> None:
    number = bot.fake.open_pull("topic", files={MODEL: "topic = 1\n"})
    workflow.comment(number, "/fvec judge")
    assert workflow.plan()["command"] == "judge"
    error = {"kind": "Missing", "message": "no bubblewrap here", "hint": "install it"}
    text = json.dumps({"schema": "fvec.error/1", "exit_code": 4, "error": error})
    done = workflow.respond("--report", workflow.measured("error.json", text), code=70)
    assert done["result"] == {
        "state": "failed",
        "summary": "no bubblewrap here",
        "hint": "install it",
    }
    (check,) = bot.fake.check_runs(bot.fake.pull(number).head_sha)
    assert check["output"]["title"] == "Nothing was decided: no bubblewrap here"


def test_a_measuring_job_that_left_nothing_is_told(workflow, bot: Bot) -> None:
    number = bot.fake.open_pull("topic", files={MODEL: "topic = 1\n"})
    workflow.comment(number, "/fvec judge")
    workflow.plan()
    done = workflow.respond("--report", code=70)
    assert done["result"]["summary"] == "the job that measures left no results"


@pytest.mark.parametrize("argument", ["", " SHA"])
def test_a_fork_is_not_measured_by_a_workflow(workflow, bot: Bot, argument: str) -> None:
    files = {MODEL: "fork = 1\n"}
    number = bot.fake.open_pull("t", login="outsider", fork="outsider/serve", files=files)
    commit = argument.replace("SHA", bot.fake.pull(number).head_sha)
    workflow.comment(number, f"/fvec judge{commit}")
    planned = workflow.plan()
    assert (planned["kind"], planned["command"]) == ("refused", "none")
    done = workflow.respond("--report")
    assert done["result"]["state"] == "refused"
    assert "push the branch to this repository" in bot.fake.comments(number)[-1]["body"]


def test_a_refused_command_is_answered_by_the_job_that_writes(workflow, bot: Bot) -> None:
    number = bot.fake.open_pull("topic", files={"a": "a"})
    asking = workflow.comment(number, "/fvec rerun")
    assert workflow.plan()["kind"] == "refused"
    assert bot.fake.reactions(asking) == []
    workflow.respond("--report")
    assert bot.fake.reactions(asking) == ["confused"]


@pytest.mark.parametrize("body", ["/fvec judge", "/fvec help", "/fvec frobnicate"])
def test_who_may_not_write_starts_no_job_with_a_token_that_writes(workflow, bot, body) -> None:
    number = bot.fake.open_pull("topic", files={"a": "a"})
    workflow.comment(number, body, login="outsider")
    planned = workflow.plan()
    assert (planned["kind"], planned["command"], planned["job"]) == ("none", "none", "")


def check_run(bot: Bot, sha: str) -> tuple[str, str | None, str]:
    """Status, conclusion and title of the one check run of a commit."""
    (run,) = bot.fake.check_runs(sha)
    return run["status"], run["conclusion"], run["output"]["title"]


def test_who_asked_sees_at_once_that_it_is_measured_and_where(workflow, bot: Bot) -> None:
    number = bot.fake.open_pull("topic", files={MODEL: "topic = 1\n"})
    asking = workflow.comment(number, "/fvec judge")
    workflow.plan()
    workflow.respond("--heard")
    head = bot.fake.pull(number).head_sha
    assert bot.fake.reactions(asking) == ["eyes"]
    assert check_run(bot, head) == ("in_progress", None, "Being measured")
    address = f"{bot.fake.url}/{bot.fake.full_name}/actions/runs/4711"
    assert bot.fake.check_runs(head)[0]["details_url"] == address

    patch = (workflow.folder / "request" / "patch.diff").read_bytes()
    text = judged(patch, bot.fake.sha()).model_dump_json(by_alias=True)
    workflow.respond("--report", workflow.measured("judge.json", text))
    assert check_run(bot, head)[:2] == ("completed", "success")
    workflow.respond("--dropped")
    assert check_run(bot, head)[:2] == ("completed", "success")


def test_an_analysis_shows_that_it_runs_on_its_commit(workflow, bot: Bot) -> None:
    bot.fake.release("v2")
    workflow.event(bot.fake.events.release("v2"))
    workflow.plan()
    workflow.respond("--heard")
    assert check_run(bot, bot.fake.sha()) == ("in_progress", None, "Being measured")


def test_what_nothing_came_of_is_in_progress_no_more(workflow, bot: Bot, monkeypatch) -> None:
    number = bot.fake.open_pull("topic", files={MODEL: "topic = 1\n"})
    workflow.comment(number, "/fvec judge")
    workflow.plan()
    workflow.respond("--heard")
    head = bot.fake.pull(number).head_sha
    monkeypatch.setenv("GITHUB_RUN_ID", "4712")  # of another command, which superseded this one
    workflow.respond("--dropped")
    assert check_run(bot, head)[0] == "in_progress"
    monkeypatch.setenv("GITHUB_RUN_ID", "4711")
    workflow.respond("--dropped")
    ended = "Nothing was decided: the measuring was ended before there was anything to report"
    assert check_run(bot, head) == ("completed", "neutral", ended)


def test_a_head_that_moved_meanwhile_is_not_left_in_progress(workflow, bot: Bot) -> None:
    number = bot.fake.open_pull("topic", files={MODEL: "topic = 1\n"})
    workflow.comment(number, "/fvec judge")
    workflow.plan()
    workflow.respond("--heard")
    head = bot.fake.pull(number).head_sha
    patch = (workflow.folder / "request" / "patch.diff").read_bytes()
    bot.fake.commit({MODEL: "topic = 2\n"}, branch="topic")
    text = judged(patch, bot.fake.sha()).model_dump_json(by_alias=True)
    left = workflow.measured("judge.json", text)
    assert workflow.respond("--report", left)["result"]["state"] == "superseded"
    assert check_run(bot, head)[:2] == ("completed", "neutral")


def test_what_measures_nothing_is_not_said_to_be_measured(workflow, bot: Bot) -> None:
    number = bot.fake.open_pull("topic", files={"a": "a"})
    workflow.comment(number, "/fvec help")
    workflow.plan()
    before = writes(bot)
    workflow.respond("--heard")
    assert writes(bot) == before


def test_results_of_another_patch_are_not_reported(workflow, bot: Bot) -> None:
    number = bot.fake.open_pull("topic", files={MODEL: "topic = 1\n"})
    workflow.comment(number, "/fvec judge")
    workflow.plan()
    text = judged(b"another", bot.fake.sha()).model_dump_json(by_alias=True)
    done = workflow.respond("--report", workflow.measured("judge.json", text), code=70)
    assert "about another patch" in done["result"]["summary"]


def test_a_job_of_another_repository_is_refused(workflow, bot: Bot, capsys, monkeypatch) -> None:
    order = {"job": {"kind": "help", "repository": "owner/other", "number": 1}, "refused": None}
    monkeypatch.setenv("FVEC_JOB", json.dumps(order))
    assert cli.main(["respond", "--report"]) == 3
    assert "the job is of another repository" in capsys.readouterr().err
    monkeypatch.setenv("FVEC_JOB", "not a job")
    assert cli.main(["respond", "--report"]) == 3


def test_a_rehearsal_reads_alone_and_says_what_it_would_write(workflow, bot: Bot) -> None:
    number = bot.fake.open_pull("topic", files={"a": "a"})
    workflow.comment(number, "/fvec help")
    told = workflow.respond("--dry-run")
    assert (told["decision"], told["kind"], told["command"]) == ("wake", "help", "none")
    assert [write["write"] for write in told["writes"]] == ["react", "sticky_comment", "react"]
    assert writes(bot) == 0


def test_a_rehearsal_of_the_onboarding_shows_its_files(workflow, bot: Bot) -> None:
    names = bot.fake.git("ls-tree", "-r", "--name-only", "main").splitlines()
    gone = [name for name in names if name.startswith((".github/", "traffic/"))]
    bot.fake.commit(dict.fromkeys(gone))
    bot.fake.release("v2")
    workflow.event(bot.fake.events.release("v2"))
    told = workflow.respond("--dry-run")
    assert told["kind"] == "analyse"
    commit = next(write for write in told["writes"] if write["write"] == "commit_files")
    assert commit["branch"] == "fvec/onboard"
    assert sorted(commit["files"]) == [
        ".github/fvec.yml",
        "traffic/.gitignore",
        "traffic/synthetic.py",
    ]
    assert writes(bot) == 0


def test_the_whole_path_runs_in_one_process(workflow, bot: Bot, monkeypatch) -> None:
    monkeypatch.setattr(measuring, "own_program", lambda: bot.program.argv)
    bot.fake.release("v2")
    workflow.event(bot.fake.events.release("v2"))
    done = workflow.respond()
    assert (done["decision"], done["result"]["state"]) == ("wake", "done")
    assert [asked["program"] for asked in bot.program.asked] == ["run"]


def test_the_manifest_s_command_says_whether_the_stack_serves(
    bot: Bot, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("FVEC_GITHUB_TOKEN", "not for you")
    context = bot.context("freshen")
    see = "import os, pathlib, sys; sys.exit('FVEC_GITHUB_TOKEN' in os.environ or not pathlib.Path('models').is_dir())"
    place = (context.remote, tmp_path / "serving", context.repository)
    assert serving.ask(*place, [sys.executable, "-c", see]) is True
    assert serving.ask(*place, [sys.executable, "-c", "raise SystemExit(1)"]) is False
    assert serving.ask(*place, ["no-such-program-here"]) is None


def test_the_output_that_carries_the_job_is_one_line_of_ascii() -> None:
    refused = actions.Refused(number=1, comment_id=2, why="a\nb\N{LINE SEPARATOR}c")
    text = actions._one_line(actions.Order(refused=refused).model_dump(mode="json"))
    assert text.isascii()
    assert len(text.splitlines()) == 1
    assert actions.read_order(text).refused == refused


def test_an_event_of_another_repository_is_refused(workflow, bot: Bot, capsys) -> None:
    number = bot.fake.open_pull("topic", files={"a": "a"})
    name, payload = bot.fake.events.comment(bot.fake.comment(number, "/fvec help"))
    payload["repository"]["full_name"] = "somebody/else"
    workflow.event((name, payload))
    assert cli.main(["respond", "--plan"]) == 3
    assert "somebody/else" in capsys.readouterr().err
    assert bot.fake.writes == []
