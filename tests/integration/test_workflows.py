"""The workflows and actions: checked by those who know the format, and run."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from bot.render import onboarding
from tests.github.contract import Contract
from tests.github.fake_github import FakeGitHub
from tests.survival import world
from tests.workflows import act
from tests.workflows.act import ROOT, Ran, Site

pytest_plugins = ["tests.github.fixtures"]

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
ACTIONS = sorted((ROOT / "actions").glob("*/action.yml"))
CALLER = ROOT / "bot/render/caller_workflow.yml"
SERVING = ROOT / ".github/workflows/serving.yml"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
EXPRESSION = "${{"
# Commands are comments: what docs/github.md says under "Security model" is why that is no danger.
COMMENTS_WANTED = "rules: {dangerous-triggers: {disable: true}}\n"


def checked(name: str, *argv: object, cwd: Path = ROOT) -> str:
    """Run a linter; return what it says, empty where it finds nothing."""
    program = act.tool(name)
    if program is None:
        pytest.skip(f"{name} is not installed beside this Python")
    done = subprocess.run(
        [str(program), *map(str, argv)], cwd=cwd, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr if done.returncode else ""


@cache
def parsed(path: Path) -> Any:
    return YAML(typ="safe").load(path)


def parsed_text(text: str) -> Any:
    return YAML(typ="safe").load(text)


def steps_of(document: Any) -> Iterator[dict[str, Any]]:
    """Yield the steps of a workflow, or of a composite action."""
    for job in document.get("jobs", {"": document.get("runs", {})}).values():
        yield from job.get("steps", ())


@pytest.fixture
def caller(tmp_path) -> Path:
    """A repository with the caller's workflow as its owner would have filled it in."""
    file = tmp_path / "caller/.github/workflows/fvec.yml"
    file.parent.mkdir(parents=True)
    file.write_text(CALLER.read_text().replace("OWNER/", "example/").replace("COMMIT", COMMIT))
    subprocess.run(["git", "init", "--quiet", tmp_path / "caller"], check=True)
    return tmp_path / "caller"


# --- what stands there -----------------------------------------------------------------------


@pytest.mark.parametrize(("schema", "files"), [("workflows", WORKFLOWS), ("actions", ACTIONS)])
def test_files_are_of_githubs_schema(schema, files):
    assert files
    assert checked("check-jsonschema", "--builtin-schema", f"vendor.github-{schema}", *files) == ""


def test_actionlint_finds_nothing():
    assert checked("actionlint", *WORKFLOWS) == ""


def test_zizmor_finds_nothing_that_is_not_explained():
    options = ("--offline", "--no-progress", "--persona=auditor")
    assert checked("zizmor", *options, ".github", "actions") == ""


def test_the_callers_workflow_passes_the_same_checks(caller):
    file = ".github/workflows/fvec.yml"
    schema = ("--builtin-schema", "vendor.github-workflows")
    assert checked("check-jsonschema", *schema, file, cwd=caller) == ""
    no_cache = ("-ignore", "no explicit cache access limit")  # nothing of what is called uses one
    assert checked("actionlint", *no_cache, file, cwd=caller) == ""
    (caller / ".github/zizmor.yml").write_text(COMMENTS_WANTED)
    assert checked("zizmor", "--offline", "--no-progress", ".github", cwd=caller) == ""


def test_the_callers_workflow_has_fifteen_lines_and_is_what_the_page_shows():
    text = CALLER.read_text()
    assert len(text.splitlines()) == 15
    assert f"```yaml\n{text}```\n" in (ROOT / "docs/github.md").read_text()


def test_the_callers_workflow_is_made_out_for_another_default_branch():
    made = parsed_text(onboarding.caller(CALLER.read_text(), "master"))
    branches = made["on"]["push"]["branches"]
    assert branches == ["master", "fvec/**"]  # what a stacked pull request stands on moves, too


def test_the_caller_grants_what_the_called_jobs_ask_for():
    granted = parsed(CALLER)["jobs"]["fvec"]["permissions"]
    level = {"read": 1, "write": 2}
    for job in parsed(SERVING)["jobs"].values():
        assert all(level[granted[name]] >= level[may] for name, may in job["permissions"].items())


@pytest.mark.parametrize(
    "file", [*WORKFLOWS, *ACTIONS], ids=lambda file: f"{file.parent.name}/{file.name}"
)
def test_actions_of_others_are_named_by_commit_and_scripts_hold_no_expression(file):
    steps = list(steps_of(parsed(file)))
    assert steps
    for step in steps:
        used = step.get("uses", "./")
        assert used.startswith("./") or PINNED.fullmatch(used), used
        assert EXPRESSION not in step.get("run", "")
        if used.startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_one_action_is_of_one_commit_everywhere():
    used = {
        step["uses"]
        for file in (*WORKFLOWS, *ACTIONS)
        for step in steps_of(parsed(file))
        if "uses" in step
    }
    others = sorted(name for name in used if not name.startswith("./"))
    assert others == sorted(act.FOREIGN)


def test_the_job_that_measures_may_read_and_holds_no_credential():
    document = parsed(SERVING)
    assert document["permissions"] == {}
    assert document["jobs"]["wake"]["permissions"] == {
        "contents": "read",
        "pull-requests": "read",
        "issues": "read",
        "checks": "read",
    }
    measure = document["jobs"]["measure"]
    assert measure["permissions"] == {"contents": "read"}
    told = json.dumps(measure)
    assert not [word for word in ("secrets", "github.token", "GITHUB_TOKEN") if word in told]


def test_jobs_that_hold_a_token_that_writes_run_nothing_of_the_repository():
    """Only `wake` and `measure` run the repository's own code, and what they hold reads."""
    jobs = parsed(SERVING)["jobs"]
    writes = [name for name, job in jobs.items() if "write" in job["permissions"].values()]
    assert writes == ["heard", "publish", "dropped"]
    for name in ("heard", "dropped"):
        assert [step.get("with", {}).get("path") for step in jobs[name]["steps"]] == [
            "fvec",
            None,
            None,
        ]


def test_nobody_s_comment_or_push_cancels_what_was_measured():
    """GitHub keeps one job of a group waiting, and cancels the others that wait."""
    jobs = parsed(SERVING)["jobs"]
    grouped = {name: job["concurrency"] for name, job in jobs.items() if "concurrency" in job}
    assert sorted(grouped) == ["measure", "publish"]
    assert "${{ github.run_id }}" in grouped["publish"]["group"]
    for told in ("outputs.kind", "outputs.number", "outputs.layers", "matrix.name"):
        assert told in grouped["measure"]["group"]


# --- what runs -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Served:
    """A serving repository on the fake GitHub, whose workflow runs here."""

    fake: FakeGitHub
    site: Site

    def run(self, event: str, payload: dict[str, Any]) -> Ran:
        env = {
            "FVEC_GITHUB_API_URL": self.fake.url,
            "FVEC_GITHUB_LOGIN": self.fake.login,
            "GITHUB_REPOSITORY": self.fake.full_name,
        }
        return self.site.run(event, payload, env=env, token=self.fake.token)

    def comment(self, number: int, body: str, *, login: str = "maintainer") -> Ran:
        told = self.fake.comment(number, body, login=login)
        return self.run(*self.fake.events.comment(told))


@pytest.fixture
def site(tmp_path) -> Site:
    """A repository that calls our workflow, at this checkout."""
    if act.tool("act") is None:
        pytest.skip("act is not installed beside this Python")
    found = Site(tmp_path / "caller", tmp_path / "bare.git", tmp_path / "runner")
    workflows = found.root / ".github/workflows"
    workflows.mkdir(parents=True)
    called = "OWNER/fvec/.github/workflows/serving.yml@COMMIT"
    text = CALLER.read_text().replace(called, "./.github/workflows/serving.yml")
    (workflows / "fvec.yml").write_text(f"{text}      preinstalled: all\n")
    (workflows / "serving.yml").write_text(SERVING.read_text())
    world.git(found.root, "init", "--quiet", "--initial-branch=main")
    world.git(found.root, "remote", "add", "origin", "https://github.com/owner/serve.git")
    world.git(found.root, "add", "--all")
    world.git(found.root, "commit", "--quiet", "--message", "Call fvec")
    found.install(act.replaying())
    return found


@pytest.fixture
def served(site, tmp_path, contract: Contract) -> Iterator[Served]:
    """The example as a repository on the fake GitHub; what is exchanged must keep to the contract."""
    root = world.repository(tmp_path / "ads")
    with FakeGitHub() as fake:
        names = world.git(root, "ls-files", "-z").split("\0")
        fake.commit({name: (root / name).read_bytes() for name in names if name})
        yield Served(fake, Site(site.root, fake.repository, site.place))
        assert contract.violations(fake.requests) == []


def ended_well(ran: Ran) -> list[str]:
    return sorted(name for name, end in ran.jobs.items() if end == "success")


def ours(served: Served) -> list[tuple[str, str, bool]]:
    """Return branch, base and whether it is a draft, of the pull requests that were opened."""
    return [(p["head"]["ref"], p["base"]["ref"], p["draft"]) for p in served.fake.pulls()]


def scheduled(fake: FakeGitHub) -> dict[str, Any]:
    return {"schedule": "41 3 * * *", "repository": repository_of(fake)}


def dispatched(fake: FakeGitHub, ref: str = "refs/heads/main") -> dict[str, Any]:
    sender = {"login": "owner", "type": "User"}
    return {"inputs": None, "ref": ref, "repository": repository_of(fake), "sender": sender}


def repository_of(fake: FakeGitHub) -> dict[str, Any]:
    return {
        "name": fake.full_name.partition("/")[2],
        "full_name": fake.full_name,
        "owner": {"login": fake.full_name.partition("/")[0]},
        "default_branch": "main",
    }


def test_a_release_is_measured_and_ends_in_drafts_whatever_it_is_called(served, tmp_path):
    canary = tmp_path / "canary"
    tag = hostile_name(canary)
    served.fake.release(tag)
    event, payload = served.fake.events.release(tag)
    payload["release"] |= {"name": hostile(canary), "body": hostile(canary)}
    ran = served.run(event, payload)
    assert ran.code == 0, ran.said
    assert ended_well(ran) == ["heard", "measure whole", "publish", "wake"]
    assert not canary.exists()
    first, second, learned = ours(served)
    assert first[1:] == ("main", True)
    assert second[1:] == (first[0], True)  # one job measured both, the second on top of the first
    for branch in (first[0], second[0]):
        assert [run["name"] for run in served.fake.check_runs(served.fake.sha(branch))] == ["fvec"]
    assert learned[:2] == ("fvec/knowledge", "main")
    (kept,) = served.site.artifacts.iterdir()
    assert sorted(path.name for path in kept.iterdir()) == ["branches.bundle", "results"]
    names = sorted(path.name for path in (kept / "results").iterdir())
    assert names == ["forge", "journal.jsonl", "report.html", "run.json"]


def test_a_scheduled_run_that_is_shared_out_ends_in_pull_requests_against_the_base(served):
    caller = served.site.root / ".github/workflows/fvec.yml"
    caller.write_text(f"{caller.read_text()}      shards: 2\n")
    ran = served.run("schedule", scheduled(served.fake))
    assert ran.code == 0, ran.said
    shares = [f"{layer}-{n}-of-2" for layer in ("features", "server", "config") for n in (1, 2)]
    measured = {name: end for name, end in ran.jobs.items() if name.startswith("measure")}
    assert measured == {f"measure {share}": "success" for share in shares}
    changes = [pull for pull in ours(served) if pull[0] != "fvec/knowledge"]
    assert [(base, draft) for _, base, draft in changes] == [("main", True)] * 2
    assert len(ours(served)) == 3
    kept = {path.name: path for path in served.site.artifacts.iterdir()}
    assert sorted(kept) == sorted(f"fvec-measured-{share}" for share in shares)
    for share in shares:
        report = json.loads((kept[f"fvec-measured-{share}"] / "results/run.json").read_text())
        layer, number = share.split("-")[:2]
        assert report["shard"] == f"{number}/2"
        assert {iteration["layer"] for iteration in report["iterations"]} <= {layer}


def test_a_push_of_other_packages_is_measured_and_one_of_words_is_not(served):
    fake = served.fake
    before = fake.sha()
    after = fake.commit({"README.md": "# Other words\n"})
    words = served.run(*fake.events.push("main", before, after))
    assert ended_well(words) == ["wake"]
    packages = fake.git("show", "main:requirements.txt")
    again = fake.commit({"requirements.txt": f"{packages}\n# as they were\n"})
    ran = served.run(*fake.events.push("main", after, again))
    assert ended_well(ran) == ["heard", "measure whole", "publish", "wake"]
    shown = [e.body["status"] for e in fake.requests if e.is_write and "check-runs" in e.path]
    assert shown[0] == "in_progress"
    (check,) = fake.check_runs(again)
    assert check["status"] == "completed"


def test_a_dispatch_and_then_a_rerun_bring_comment_and_check_run_up_to_date(served):
    first = served.run("workflow_dispatch", dispatched(served.fake))
    assert first.code == 0, first.said
    number = served.fake.pulls()[0]["number"]
    told = served.fake.comment(number, "/fvec rerun", login="maintainer")
    ran = served.run(*served.fake.events.comment(told))
    assert ran.code == 0, ran.said
    assert ended_well(ran) == ["heard", "measure whole", "publish", "wake"]
    assert "rocket" in served.fake.reactions(told)
    answers = [c for c in served.fake.comments(number) if c["user"]["login"] == served.fake.login]
    assert len(answers) == 1
    assert "reproduced" in answers[0]["body"]


def test_what_a_runner_lacks_is_told_on_the_pull_request(served):
    files = {"models/features/1/schema.py": "# shorter\n"}
    number = served.fake.open_pull("quicker", login="maintainer", files=files)
    ran = served.comment(number, "/fvec judge exact")
    assert ran.jobs["measure whole"] == "failure"
    assert ran.jobs["publish"] == "failure"  # for a person to look at
    (check,) = served.fake.check_runs(served.fake.sha("quicker"))
    assert check["conclusion"] == "neutral"
    assert "no accelerator of this kind" in json.dumps(check["output"])


def test_what_is_not_reported_is_in_progress_no_more(served):
    files = {"models/features/1/schema.py": "# shorter\n"}
    number = served.fake.open_pull("quicker", login="maintainer", files=files)
    broken = 'case "$*" in *--report*) exit 1 ;; esac\n'
    served.site.install(f"{broken}{act.replaying()}")
    ran = served.comment(number, "/fvec judge exact")
    assert (ran.jobs["publish"], ran.jobs["dropped"]) == ("failure", "success")
    (check,) = served.fake.check_runs(served.fake.sha("quicker"))
    assert (check["status"], check["conclusion"]) == ("completed", "neutral")


@pytest.mark.parametrize("place", ["pull request", "issue"])
def test_a_comment_that_is_no_command_for_a_pull_request_wakes_nothing(served, place):
    if place == "issue":
        number, body = served.fake.open_issue("slow"), "/fvec help"
    else:
        number = served.fake.open_pull("quicker", files={"README.md": "# Quicker\n"})
        body = "please /fvec rerun this"
    ran = served.comment(number, body)
    assert ran.code == 0, ran.said
    assert ended_well(ran) == []
    assert served.fake.requests == []


def test_a_pull_request_of_a_fork_goes_no_further(served):
    number = served.fake.open_pull(
        "theirs", login="outsider", fork="outsider/serve", files={"a": "b"}
    )
    ran = served.run(*served.fake.events.pull(number, "closed"))
    assert ran.code == 0, ran.said
    assert "success" not in ran.jobs.values()
    assert served.fake.requests == []


# --- what a measuring job leaves -------------------------------------------------------------

CHECKOUT, UPLOAD, _ = act.FOREIGN
ON_A_RUNNER_THAT_STAYS = f"""\
on: workflow_dispatch
jobs:
  measure:
    runs-on: self-hosted
    steps:
      - uses: {CHECKOUT}
        with: {{path: fvec, persist-credentials: false}}
      - run: mkdir -p outbox/results && echo '{{}}' > outbox/results/verify.json
      - uses: ./fvec/actions/measure
        with: {{stack: ., command: verify, request: request, minutes: 7}}
      - if: always()
        uses: {UPLOAD}
        with: {{name: left, path: outbox}}
"""


def left(site: Site) -> dict[str, Any]:
    """Have the action measure after another job in the same workspace; return the files it leaves."""
    (site.root / ".github/workflows/serving.yml").unlink()
    (site.root / ".github/workflows/fvec.yml").write_text(ON_A_RUNNER_THAT_STAYS)
    ran = site.run("workflow_dispatch", {}, env={})
    assert ran.jobs == {"measure": "failure"}
    results = site.artifacts / "left/results"
    return {file.name: json.loads(file.read_text()) for file in results.iterdir()}


def test_the_report_of_the_last_job_on_a_runner_is_not_that_of_this_one(site):
    told = {"error": {"message": "nothing was measured"}}
    site.install(f"echo '{json.dumps(told)}'; exit 4")
    assert left(site) == {"error.json": told}


def test_a_measurement_that_takes_too_long_is_ended_and_says_so(site):
    """`timeout` is a stand-in that runs nothing and says that the time is over."""
    site.install("exit 9")
    ended = site.place / "bin/timeout"
    ended.write_text(f'#!/bin/sh\necho "$@" > {site.place}/asked\nexit 124\n')
    ended.chmod(0o755)
    (error,) = left(site).values()
    assert error["schema"] == "fvec.error/1"
    assert "longer than 7 minutes" in error["error"]["message"]
    asked = (site.place / "asked").read_text()
    assert asked.startswith("--kill-after=60 7m fvec verify request/evidence.json --stack=. --json")


# --- what must not run -----------------------------------------------------------------------


def hostile(canary: Path) -> str:
    """Return text that makes `canary` where a shell reads it, in or out of quotes."""
    return f"$(touch {canary})`touch {canary}`\";touch {canary};\"';touch {canary};'"


def hostile_name(canary: Path) -> str:
    """Return the same as a name that git takes for a branch: no blanks, no control characters."""
    return f"x$(touch${{IFS}}{canary})`touch${{IFS}}{canary}`;touch${{IFS}}{canary};"


@pytest.mark.parametrize(
    "body", ["/fvec rerun {}", "/fvec judge exact\n{}", "/fvec help {} ${{{{ github.token }}}}"]
)
def test_a_hostile_comment_executes_nothing(served, tmp_path, body):
    canary = tmp_path / "canary"
    number = served.fake.open_pull("quicker", files={"README.md": "# Quicker\n"})
    ran = served.comment(number, body.format(hostile(canary)))
    assert ran.code == 0, ran.said
    assert "Decide" in ran.steps["wake"]  # it was looked at
    assert not canary.exists()
    assert served.fake.token not in ran.said


def test_a_hostile_branch_executes_nothing(served):
    # The name holds the path three times, and a branch's name may only be so long.
    with tempfile.TemporaryDirectory() as place:
        _a_hostile_branch(served, Path(place, "canary"))


def _a_hostile_branch(served, canary: Path) -> None:
    name = hostile_name(canary)
    number = served.fake.open_pull(name, login="maintainer", files={"README.md": "# Quicker\n"})
    judged = served.comment(number, "/fvec judge exact")
    assert judged.jobs["measure whole"] == "failure"  # it came as far as fvec
    assert not canary.exists()
    served.fake.merge(number)
    merged = served.run(*served.fake.events.pull(number, "closed"))
    assert merged.code == 0, merged.said
    dispatch = dispatched(served.fake, f"refs/heads/{name}")
    dispatch["repository"]["default_branch"] = name
    served.run("workflow_dispatch", dispatch)
    assert not canary.exists()


def test_a_badly_written_step_would_be_found(site, tmp_path):
    """The canary dies where a comment is pasted into a script: what the tests above rest on."""
    canary = tmp_path / "canary"
    (site.root / ".github/workflows/serving.yml").unlink()
    (site.root / ".github/workflows/fvec.yml").write_text(BADLY_WRITTEN)
    payload = {"action": "created", "comment": {"body": hostile(canary)}}
    site.run("issue_comment", payload, env={})
    assert canary.exists()


BADLY_WRITTEN = """\
on: issue_comment
jobs:
  paste:
    runs-on: ubuntu-24.04
    steps:
      - run: echo ${{ github.event.comment.body }}
"""
