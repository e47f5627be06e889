"""Jobs on the fake GitHub, measured by a recorded run; fixtures: `tests.github_jobs_fixtures`."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bot.github.api import Clock
from bot.github.auth import AppCredentials, TokenCredentials
from bot.github.client import Client, connect
from bot.github.transport import Remote
from bot.jobs.context import Context, JobResult
from bot.jobs.runner import perform
from bot.wake.jobs import JobSpec
from layers import reverify
from layers.evidence import JudgeReport, VerifyReport
from tests import measuring_program
from tests.github.fake_github import FakeGitHub
from tests.github.faults import Exchange
from tests.github.recorded_results import FIRST, Ran
from tests.github.wiring import connected
from tests.unit.test_judge_rendering import accepted

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CLOCK = Clock(sleep=lambda _: None)
MODEL = "models/features/1/model.py"
MANIFEST = ".github/fvec.yml"
KNOWLEDGE = "fvec/knowledge"
SLO_MS = 750.0  # of the recorded stack
_HEAD = re.compile(r"^diff --git a/(.*) b/", re.MULTILINE)


class Killed(BaseException):
    """The process ends here; nothing catches it."""


@dataclass
class Program:
    """The stand-in for the program that measures, and what it was asked."""

    folder: Path

    @property
    def argv(self) -> list[str]:
        return [sys.executable, str(Path(measuring_program.__file__)), str(self.folder)]

    @property
    def asked(self) -> list[dict[str, Any]]:
        file = self.folder / "asked.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def leaves(self, ran: Ran) -> None:
        """Let `run` leave the results of a recorded run, and its branches."""
        shutil.copytree(ran.out, self.folder / "run", dirs_exist_ok=True)
        branches = self.folder / "branches"
        if not branches.exists():
            branches.symlink_to(ran.root)  # it is only fetched from

    def answers(self, report: VerifyReport | JudgeReport) -> None:
        """Let `verify` or `judge` leave a report."""
        name = "verify" if isinstance(report, VerifyReport) else "judge"
        (self.folder / name).mkdir(parents=True, exist_ok=True)
        text = report.model_dump_json(by_alias=True)
        (self.folder / name / f"{name}.json").write_text(text)

    def breaks(self, code: int, message: str, hint: str) -> None:
        """Let every program end by an error, as `fvec --json` tells one."""
        error = {"kind": "Broken", "message": message, "hint": hint}
        document = {"schema": "fvec.error/1", "exit_code": code, "error": error}
        (self.folder / "error.json").write_text(json.dumps(document))


@dataclass
class Bot:
    """The bot at work on one fake GitHub."""

    fake: FakeGitHub
    program: Program
    work: Path
    direct: bool = True  # plain HTTP; else wired in process
    as_app: bool = False  # with a key of its own; else with a token
    writing: bool = False  # a test of decisions says that it writes too
    ids: Iterator[int] = field(default_factory=lambda: iter(range(1, 1000)))

    def client(self) -> Client:
        address = {"api_url": self.fake.url} if self.direct else {}
        if self.as_app:
            app = self.fake.app
            shown = AppCredentials(str(app.id), app.private_key, throttle=False, **address)
            return connect(shown, throttle=False, clock=CLOCK)
        credentials = TokenCredentials(self.fake.token, login=self.fake.login, **address)
        return connect(credentials, throttle=False, clock=CLOCK)

    def context(self, kind: str, attempt_of: str = "", **fields: Any) -> Context:
        spec = JobSpec(kind=kind, repository=self.fake.full_name, why="a test asked", **fields)
        client = self.client()
        return Context(
            spec=spec,
            client=client,
            repository=client.repository(spec.repository),
            remote=Remote(self.fake.git_url, client.credentials),
            work=self.work,
            attempt_of=attempt_of or str(next(self.ids)),
            clock=lambda: NOW,
            fvec=self.program.argv,
        )

    def does(self, kind: str, **fields: Any) -> JobResult:
        """Perform a job."""
        return perform(self.context(kind, **fields))

    def asked(self, kind: str, number: int, login: str = "maintainer", **fields: Any) -> JobResult:
        """Perform a job that a comment asked for; the head is pinned now."""
        comment = self.fake.comment(number, f"/fvec {kind}", login=login)
        sha = {"sha": self.fake.pull(number).head_sha} if kind in ("rerun", "judge") else {}
        given = {"number": number, "comment_id": comment, "asked_by": login, **sha, **fields}
        return self.does(kind, **given)

    def published(self) -> int:
        """Perform an analysis of main; return the number of the first pull request."""
        result = self.does("analyse", sha=self.fake.sha())
        assert result.state == "done", result
        return next(pull["number"] for pull in self.fake.pulls() if pull["head"]["ref"] == FIRST)


def verified(ran: Ran, number: int, ratio: float = 1.0) -> VerifyReport:
    """The evidence of a recorded pull request, measured again with `ratio` times its gain."""
    recorded = reverify.load(ran.pull(number))
    return reverify.compare(recorded, _again(recorded, ratio))


def _again(recorded: reverify.Recorded, ratio: float) -> JudgeReport:
    """The judgement of evidence, its fresh pairs and their blocks with another gain."""
    evidence, gain = recorded.evidence, recorded.end_to_end
    iteration = evidence.iteration
    fresh = {pair.launch for pair in iteration.confirm}
    told = {"throughput_ratio": gain.throughput_ratio * ratio}
    told |= {"ci": (gain.ci[0] * ratio, gain.ci[1] * ratio)}
    return accepted().model_copy(
        update={
            "change_class": iteration.hypothesis.change_class,
            "noise": evidence.noise,
            "gates": iteration.gates,
            "equivalence": iteration.equivalence,
            "looks": iteration.looks,
            "pairs": iteration.pairs,
            "confirm": [
                pair.model_copy(update={"throughput_ratio": pair.throughput_ratio * ratio})
                for pair in iteration.confirm
            ],
            "end_to_end": gain.model_copy(update=told),
            "load_test": iteration.load_test,
            "stack": evidence.stack.model_copy(update={"commit": recorded.base_commit}),
            "blocks": [
                block.model_copy(update={"rate": block.rate * ratio})
                if block.arm == "candidate" and block.launch in fresh
                else block
                for block in evidence.blocks
            ],
            "files_changed": iteration.files_changed,
            "patch_sha256": hashlib.sha256(recorded.patch).hexdigest(),
        }
    )


def judged(
    patch: bytes, base: str, report: JudgeReport | None = None, **changes: Any
) -> JudgeReport:
    """A judgement of a patch on a commit of the recorded stack."""
    report = report or accepted()
    slo = {"slo_p99_ms": SLO_MS}
    told = {
        "patch_sha256": hashlib.sha256(patch).hexdigest(),
        "files_changed": sorted(_HEAD.findall(patch.decode())),
        "stack": report.stack.model_copy(update={"commit": base, **slo}),
        "load_test": report.load_test and report.load_test.model_copy(update=slo),
    }
    return report.model_copy(update={**told, **changes})


@contextmanager
def killed_after(bot: Bot, nth: int) -> Iterator[list[Exchange]]:
    """Wire the bot in process, and end its work after the nth write or push that GitHub did."""
    seen: list[Exchange] = []

    def after(exchange: Exchange) -> None:
        if exchange.is_write:
            seen.append(exchange)
            if len(seen) == nth:
                raise Killed

    bot.direct = False
    try:
        with connected(bot.fake, after=after), _pushes(after):
            yield seen
    finally:
        bot.direct = True


@contextmanager
def _pushes(after: Callable[[Exchange], None]) -> Iterator[None]:
    """Tell of every push, once it was made."""
    push = Remote.push

    def told(self: Remote, root: Path, branch: str, commit: str, *, expected: str | None) -> None:
        push(self, root, branch, commit, expected=expected)
        after(Exchange("POST", f"{self.url}/git-receive-pack", {}, None))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Remote, "push", told)
        yield


# What is there now


def changes(bot: Bot) -> list[dict[str, Any]]:
    """The pull requests with changes to what is served: that of the knowledge is none."""
    return [pull for pull in bot.fake.pulls() if pull["head"]["ref"] != KNOWLEDGE]


def check(bot: Bot, sha: str, external_id: str = "verdict") -> tuple[str, str]:
    """Conclusion and title of the one check run of that kind on a commit."""
    (run,) = [run for run in bot.fake.check_runs(sha) if run["external_id"] == external_id]
    assert run["name"] == "fvec"
    return run["conclusion"], run["output"]["title"]


def comment(bot: Bot, number: int, key: str = "report") -> str:
    """The one comment of that kind."""
    marked = f"<!-- fvec:{key} -->"
    (body,) = [c["body"] for c in bot.fake.comments(number) if c["body"].startswith(marked)]
    return str(body)


def kept(bot: Bot, path: str) -> Any:
    """A JSON document of the evidence branch."""
    return json.loads(bot.fake.git("show", f"fvec/evidence:{path}"))


def history(bot: Bot, folder: str) -> list[tuple[str, str]]:
    reports = kept(bot, f"{folder}/history.json")["reports"]
    return [(report["verdict"], report["reason"]) for report in reports]


def dashboard(bot: Bot) -> str:
    (issue,) = bot.fake.issues()
    assert issue["title"] == "fvec dashboard"
    return str(issue["body"])


def model_of(bot: Bot, branch: str = "main") -> str:
    return bot.fake.git("show", f"{branch}:{MODEL}") + "\n"


def diff(bot: Bot, base: str, head: str) -> bytes:
    options = ("--binary", "--full-index", "--no-renames", "--src-prefix=a/", "--dst-prefix=b/")
    return f"{bot.fake.git('diff', *options, base, head, '--')}\n".encode()
