"""Jobs from their beginning to their end, on a GitHub on loopback; measurements are recorded."""

import json
import shutil

import pytest

from bot.github.archive import EvidenceBranch
from bot.github.errors import RateLimited
from bot.jobs import measuring, notes
from bot.jobs.analyse import Shard
from bot.jobs.context import JobResult, Stopped
from bot.jobs.runner import given_up, perform, report
from layers.events import Silent
from layers.manifest import SandboxMode
from tests.github.recorded_results import FIRST, Ran
from tests.github_jobs import KNOWLEDGE, MANIFEST, Bot, changes, check, comment, dashboard, kept

pytest_plugins = [
    "tests.github.fixtures",
    "tests.github.recorded_fixtures",
    "tests.github_jobs_fixtures",
]
pytestmark = pytest.mark.usefixtures("drawn_once")


# Analysis


def test_an_analysis_opens_what_it_accepted_and_says_so(bot: Bot, ran: Ran) -> None:
    base = bot.fake.sha()
    result = bot.does("analyse", sha=base)

    (pull,) = changes(bot)
    assert (pull["head"]["ref"], pull["base"]["ref"], pull["draft"]) == (FIRST, "main", True)
    conclusion, title = check(bot, base, "analysis")
    run_id = ran.run["run_id"]
    assert (conclusion, title) == ("success", f"1 change accepted, run {run_id}")
    assert result == JobResult(
        "done",
        f"run {run_id}: {ran.run['conclusion']}",
        pulls=result.pulls,
        commit=base,
    )
    assert [(p.branch, p.state) for p in result.pulls or ()] == [
        (FIRST, "open"),
        (KNOWLEDGE, "open"),
    ]
    state = kept(bot, "state.json")
    assert (state["analysis"]["sha"], state["analysis"]["run_id"]) == (base, run_id)
    assert state["analysis"]["versions"]
    assert f"analyse at `{base[:10]}`" in dashboard(bot)


def test_what_measures_sees_no_credential(bot: Bot, monkeypatch) -> None:
    for name in ("FVEC_GITHUB_TOKEN", "FVEC_APP_PRIVATE_KEY_FILE", "GITHUB_TOKEN", "AWS_SECRET"):
        monkeypatch.setenv(name, "not for you")
    bot.does("analyse", sha=bot.fake.sha(), layers=("features", "config"))

    (asked,) = bot.program.asked
    assert asked["program"] == "run"
    assert asked["options"] == ["--resume", "--json", "--out", "--layer", "features", "--layer", "config"]  # fmt: skip
    assert (asked["commit"], asked["branch"]) == (bot.fake.sha(), "main")
    added_by_the_interpreter = {"LC_CTYPE"}
    assert set(asked["environment"]) <= {*measuring.environment(), *added_by_the_interpreter}
    assert "not for you" not in str(measuring.environment())


def test_a_wrong_manifest_is_told_with_its_place(bot: Bot) -> None:
    manifest = bot.fake.git("show", f"main:{MANIFEST}")
    head = bot.fake.commit({MANIFEST: f"{manifest}\nlayerz: [features]\n"})
    result = bot.does("analyse", sha=head)

    assert result.state == "failed"
    assert ".github/fvec.yml:" in result.summary
    assert result.hint
    conclusion, title = check(bot, head, "analysis")
    assert conclusion == "failure"
    assert title.startswith("Cannot work here: .github/fvec.yml:")
    assert ".github/fvec.yml:" in dashboard(bot)
    assert bot.program.asked == []


def test_an_error_of_the_program_is_neutral_and_told(bot: Bot) -> None:
    bot.program.breaks(4, "bubblewrap (bwrap) is not on PATH", "apt-get install bubblewrap")
    base = bot.fake.sha()
    result = bot.does("analyse", sha=base)

    assert result == JobResult(
        "failed", "bubblewrap (bwrap) is not on PATH", "apt-get install bubblewrap"
    )
    assert check(bot, base, "analysis") == (
        "neutral",
        "Nothing was decided: bubblewrap (bwrap) is not on PATH",
    )
    assert "apt-get install bubblewrap" in dashboard(bot)


def test_secrets_and_folders_of_this_machine_stay_in_it(bot: Bot) -> None:
    token = "ghp_" + "a1B2" * 9
    bot.program.breaks(70, f"{bot.work}/x/log: pushing with {token} failed", "")
    base = bot.fake.sha()
    bot.does("analyse", sha=base)

    told = json.dumps([bot.fake.check_runs(base), bot.fake.issues()])
    assert token not in told
    assert str(bot.work) not in told
    assert "pushing with" in told


def test_a_commit_that_is_not_on_the_default_branch_is_not_analysed(bot: Bot) -> None:
    other = bot.fake.commit({"a": "a"}, branch="release")
    result = bot.does("analyse", sha=other)
    assert result == JobResult(
        "refused", f"commit {other[:10]} is not on main, where changes are proposed"
    )
    assert bot.program.asked == []


def test_results_of_another_commit_are_refused(bot: Bot) -> None:
    head = bot.fake.commit({"README.md": "new"})
    result = bot.does("analyse", sha=head)
    assert result.state == "failed"
    assert f"not {head[:12]}" in result.summary
    assert bot.fake.pulls() == []


def test_recreate_opens_what_a_person_closed_again(bot: Bot) -> None:
    number = bot.published()
    bot.fake.close(number)
    result = bot.asked("recreate", number)

    assert result.state == "done"
    assert [(p["head"]["ref"], p["state"]) for p in changes(bot)] == [
        (FIRST, "closed"),
        (f"{FIRST}-2", "open"),
    ]
    assert bot.program.asked[-1]["options"][-2:] == ["--layer", "features"]


def test_a_closed_pull_request_means_no(bot: Bot) -> None:
    bot.fake.close(bot.published())
    result = bot.does("analyse", sha=bot.fake.sha())

    assert [p["state"] for p in changes(bot)] == ["closed"]
    assert [p.state for p in result.pulls or ()] == ["closed", "open"]
    assert "closed without merging, which means no" in dashboard(bot)


# Onboarding


@pytest.fixture
def unknown(bot: Bot) -> Bot:
    """A repository without a manifest and traffic."""
    there = bot.fake.git("ls-tree", "-r", "--name-only", "main").splitlines()
    paths = [n for n in there if n == MANIFEST or n.startswith("traffic/")]
    bot.fake.commit(dict.fromkeys(paths))
    return bot


def test_a_repository_without_a_manifest_is_asked_once(unknown: Bot) -> None:
    bot = unknown
    result = bot.does("analyse", sha=bot.fake.sha())

    assert result == JobResult(
        "done", "the onboarding pull request waits to be merged", onboarding=1
    )
    (pull,) = changes(bot)
    assert (pull["head"]["ref"], pull["base"]["ref"]) == ("fvec/onboard", "main")
    added = bot.fake.git("diff", "--name-status", "main", "fvec/onboard").split("\n")
    assert sorted(line for line in added if line) == [
        "A\t.github/fvec.yml",
        "A\ttraffic/.gitignore",
        "A\ttraffic/synthetic.py",
    ]
    assert "**Nothing happens before this is merged.**" in pull["body"]
    assert "name: fvec\n" in pull["body"]
    assert bot.program.asked == []

    assert bot.does("analyse", sha=bot.fake.sha()).summary == (
        "the onboarding pull request waits to be merged"
    )
    bot.fake.close(1)
    assert bot.does("analyse", sha=bot.fake.sha()).summary == (
        "the onboarding pull request was closed, which means no"
    )
    assert len(changes(bot)) == 1


def test_a_repository_that_serves_nothing_is_left_alone(bot: Bot) -> None:
    names = bot.fake.git("ls-tree", "-r", "--name-only", "main").splitlines()
    bot.fake.commit({**dict.fromkeys(names), "README.md": "a library"})
    writes = len(bot.fake.writes)
    result = bot.does("onboard")
    assert (result.state, result.shown) == ("refused", False)
    assert len(bot.fake.writes) == writes


# A run that several runners shared

SHARDS = ("features-1-of-2", "features-2-of-2")


def reported(bot: Bot, ran: Ran, *shards: Shard) -> JobResult:
    """Report what shards left, as a workflow's last job does."""
    return report(bot.context("analyse", sha=ran.base), shards, ran.root, SHARDS)


def not_analysed(bot: Bot) -> str:
    """Why no analysis is written down, but an attempt."""
    state = kept(bot, "state.json")
    assert state["analysis"] is None
    return str(state["attempt"]["why"])


def test_a_shard_that_is_missing_is_told_and_no_analysis_is_written_down(bot, ran) -> None:
    result = reported(bot, ran, Shard(SHARDS[0], ran.out))
    told = "1 of 2 shards failed: shard features-2-of-2 left no results"
    assert result.state == "failed"
    assert result.summary.endswith(told)
    assert (len(changes(bot)), not_analysed(bot)) == (1, told)
    assert check(bot, ran.base, "analysis")[0] == "neutral"
    assert told in dashboard(bot)


def test_results_that_two_shards_claim_to_be_are_nobody_s(bot, ran) -> None:
    result = reported(bot, ran, *[Shard(SHARDS[0], ran.out)] * 2)
    assert result.state == "failed"
    assert result.summary == "shard features-1-of-2 left results twice"
    assert changes(bot) == []


def test_a_shard_that_cannot_be_published_takes_no_other_along(bot, ran, tmp_path) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(ran.out, bad)
    (bad / "forge" / "pulls" / "1" / "evidence.json").write_text("{}")
    result = reported(bot, ran, Shard(SHARDS[0], bad), Shard(SHARDS[1], ran.out))
    assert result.state == "failed"
    assert "1 of 2 shards failed" in result.summary
    assert len(changes(bot)) == 1


def test_knowledge_that_cannot_be_published_takes_no_change_along(bot) -> None:
    bot.fake.commit({"mine.md": "mine"}, branch=KNOWLEDGE)
    number = bot.published()
    assert f"#{number}" in dashboard(bot)
    assert "the bot never committed to it" in dashboard(bot)
    assert kept(bot, "state.json")["analysis"]["sha"] == bot.fake.sha()


# Recreation


def continued(bot: Bot, number: int) -> str:
    return comment(bot, number, "continued")


def allow_one(bot: Bot) -> None:
    """Let the manifest allow one open pull request."""
    text = bot.fake.git("show", f"main:{MANIFEST}")
    bot.fake.commit({MANIFEST: f"{text}\nbot: {{max_open_pull_requests: 1}}\n"})


def test_a_pull_request_that_is_made_anew_does_not_count_as_one_that_is_open(bot, ran) -> None:
    number = bot.published()
    bot.fake.commit_to_pull(number, {"mine.txt": "mine"})
    allow_one(bot)
    assert bot.asked("recreate", number, sha=ran.base).state == "done"
    assert [p["head"]["ref"] for p in changes(bot)] == [FIRST, f"{FIRST}-2"]
    assert "went on in #" in continued(bot, number)


def test_a_recreation_that_is_held_back_is_told_on_the_pull_request(bot, ran) -> None:
    number = bot.published()
    bot.fake.close(number)
    bot.fake.open_pull("fvec/features/other", login=bot.fake.login, files={"a.txt": "a"})
    allow_one(bot)
    assert bot.asked("recreate", number, sha=ran.base).state == "done"
    assert "opened nothing: 1 are open" in continued(bot, number)


def test_a_recreation_that_is_not_accepted_again_is_told_with_its_verdict(bot, ran) -> None:
    number = bot.published()
    bot.fake.close(number)

    def rejected(run: dict) -> None:
        run["pull_requests"] = []
        for trial in run["iterations"]:
            trial.update(verdict="rejected", reason="outputs_differ")

    ran.change(ran.out / "run.json", rejected)
    bot.program.leaves(ran)
    assert bot.asked("recreate", number).state == "done"
    assert "did not find this change again" in continued(bot, number)
    assert "rejected, `outputs_differ`" in continued(bot, number)


# Before anything is measured


def standing(bot: Bot, sha: str) -> str:
    """Status of the one check run of an analysis."""
    (run,) = bot.fake.check_runs(sha)
    return str(run["status"])


def test_that_a_commit_is_measured_is_shown_on_it_while_it_is(bot: Bot) -> None:
    seen = []

    class Events(Silent):
        def phase(self, name: str, detail: str = "") -> None:
            seen.append((name, standing(bot, bot.fake.sha())))

    context = bot.context("recreate", number=bot.published())
    context.events = Events()
    assert perform(context).state == "done"
    assert ("measure", "in_progress") in seen
    assert standing(bot, bot.fake.sha()) == "completed"


@pytest.mark.parametrize("why", ["archived", "disabled"])
def test_a_repository_that_takes_no_write_is_not_measured(bot: Bot, why: str) -> None:
    bot.fake.world.closed = why
    result = bot.does("analyse", sha=bot.fake.sha())
    told = f"the repository is {why}: nothing that is measured could be told there"
    assert result == JobResult("refused", told)
    assert bot.program.asked == []


def test_an_app_that_may_not_set_a_check_run_measures_nothing(bot: Bot) -> None:
    bot.as_app = True
    checks = f"/repos/{bot.fake.full_name}/check-runs"
    bot.fake.faults.add("403 permission", "POST", checks, times=9)
    result = bot.does("analyse", sha=bot.fake.sha())
    assert result.state == "refused"
    assert "Resource not accessible by integration" in result.summary
    assert bot.program.asked == []


def test_a_personal_token_which_sets_no_check_run_measures_all_the_same(bot: Bot) -> None:
    checks = f"/repos/{bot.fake.full_name}/check-runs"
    bot.fake.faults.add("403 permission", "POST", checks, times=9)
    bot.does("analyse", sha=bot.fake.sha())
    assert len(changes(bot)) == 1


def test_the_model_server_is_installed_by_a_process_without_credentials(bot, monkeypatch) -> None:
    monkeypatch.setenv("FVEC_GITHUB_TOKEN", "secret")
    monkeypatch.setenv("PIP_INDEX_URL", "https://packages.example/simple")
    bot.published()
    (asked,) = map(json.loads, (bot.program.folder / "doctor.jsonl").read_text().splitlines())
    assert asked["options"] == ["--install", "--json"]
    assert asked["commit"] == bot.fake.sha()
    assert {"PIP_INDEX_URL", "PIP_ONLY_BINARY"} <= set(asked["environment"])
    assert "FVEC_GITHUB_TOKEN" not in asked["environment"]


def test_a_model_server_that_cannot_be_installed_is_told(bot) -> None:
    lacking = {"name": "model server", "ok": False, "detail": "no such package", "fix": "mend it"}
    (bot.program.folder / "doctor.json").write_text(json.dumps({"checks": [lacking]}))
    result = bot.does("analyse", sha=bot.fake.sha())
    assert result == JobResult(
        "failed", "the model server cannot be set up: no such package", "mend it"
    )
    assert bot.program.asked == []


def test_a_manifest_may_name_no_weaker_sandbox_than_the_machine_s_owner_allows(bot, ran) -> None:
    text = bot.fake.git("show", f"main:{MANIFEST}")
    bot.fake.commit({MANIFEST: f"{text}\nsandbox: {{mode: process}}\n"})
    context = bot.context("analyse", sha=bot.fake.sha())
    context.weakest = SandboxMode.NO_CGROUP
    result = perform(context)
    told = "`sandbox.mode: process` is weaker than no-cgroup, which is the least here"
    assert (result.state, result.summary) == ("failed", f"{MANIFEST}: {told}")
    assert bot.program.asked == []


# What the service's queue gives up


def test_a_job_that_was_given_up_is_told_like_one_that_failed(bot: Bot) -> None:
    number = bot.published()
    head = bot.fake.pull(number).head_sha
    asking = bot.fake.comment(number, "/fvec rerun")
    given = {"number": number, "sha": head, "comment_id": asking, "asked_by": "maintainer"}
    context = bot.context("rerun", **given)
    result = given_up(context, "given up: GitHub was failing")
    assert (result.state, result.summary) == ("failed", "given up: GitHub was failing")
    assert "given up: GitHub was failing" in comment(bot, number)
    assert check(bot, head)[0] == "neutral"
    assert bot.fake.reactions(asking) == ["confused"]
    assert "given up: GitHub was failing" in dashboard(bot)
    assert given_up(context, "again") == result


# Ending and beginning again


def test_a_job_that_is_superseded_ends_its_program(bot: Bot) -> None:
    (bot.program.folder / "hang").touch()
    context = bot.context("analyse", sha=bot.fake.sha())
    context.stopping = lambda: "superseded"
    result = perform(context)
    assert result == JobResult("superseded", "another commit is to be measured now")
    assert bot.fake.pulls() == []
    assert standing(bot, bot.fake.sha()) == "completed"
    assert check(bot, bot.fake.sha(), "analysis")[0] == "neutral"


def test_a_worker_that_stops_gives_the_job_back(bot: Bot) -> None:
    (bot.program.folder / "hang").touch()
    context = bot.context("analyse", sha=bot.fake.sha())
    context.stopping = lambda: "stopping"
    with pytest.raises(Stopped):
        perform(context)
    assert (bot.fake.issues(), standing(bot, bot.fake.sha())) == ([], "in_progress")
    (bot.program.folder / "hang").unlink()
    context.stopping = lambda: None
    assert perform(context).state == "done"
    assert len(changes(bot)) == 1


def test_a_job_that_ended_is_not_done_again(bot: Bot) -> None:
    context = bot.context("analyse", attempt_of="7", sha=bot.fake.sha())
    first = perform(context)
    writes = len(bot.fake.writes)
    assert perform(bot.context("analyse", attempt_of="7", sha=bot.fake.sha())) == first
    assert len(bot.fake.writes) == writes
    assert [path.name for path in context.folder.iterdir()] == [notes.FILE]


def test_a_rate_limit_leaves_the_job_to_another_attempt(bot: Bot) -> None:
    bot.fake.faults.add("403 primary", "GET", f"/repos/{bot.fake.full_name}/contents/*", times=9)
    context = bot.context("analyse", sha=bot.fake.sha())
    with pytest.raises(RateLimited):
        perform(context)
    bot.fake.faults.clear()
    assert perform(context).state == "done"


def test_what_may_not_be_told_does_not_change_how_a_job_ends(bot: Bot) -> None:
    bot.program.breaks(70, "it broke", "")
    bot.fake.faults.add("403 permission", "WRITE", times=99)
    result = bot.does("analyse", sha=bot.fake.sha())
    assert result == JobResult("failed", "it broke")


def test_records_that_somebody_spoiled_are_begun_anew(bot: Bot) -> None:
    bot.published()
    bot.fake.commit({"runs/runs.json": "[]"}, branch="fvec/evidence")
    bot.does("freshen", sha=bot.fake.sha())
    runs = kept(bot, "runs/runs.json")
    assert [run["kind"] for run in runs["runs"]] == ["freshen"]
    assert EvidenceBranch(bot.client().repository(bot.fake.full_name)).state().analysis
