"""A job killed after any write or push, and done again: one of everything, and nothing twice."""

import re
import shutil
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from bot.jobs.context import Context, JobResult
from bot.jobs.runner import perform
from tests.github.fake_github import FakeGitHub
from tests.github.recorded_results import Ran, push_base
from tests.github_jobs import MODEL, NOW, Bot, Killed, Program, killed_after, model_of, verified

pytest_plugins = [
    "tests.github.fixtures",
    "tests.github.recorded_fixtures",
    "tests.github_jobs_fixtures",
]
pytestmark = pytest.mark.usefixtures("drawn_once")

MOST_WRITES = 60
KEPT = re.compile(r"/blob/([0-9a-f]{40})/")  # the commit of the evidence branch that a text is of
Prepared = Callable[[Bot], Callable[[], Context]]


def left(bot: Bot) -> dict[str, Any]:
    """All that people see, without what differs from run to run."""
    fake = bot.fake
    numbers = [*(p["number"] for p in fake.pulls()), *(i["number"] for i in fake.issues())]
    heads = sorted(fake.branches().items())
    return {
        "branches": [name for name, _ in heads],
        "pulls": [(p["head"]["ref"], p["title"], p["state"], p["draft"]) for p in fake.pulls()],
        "issues": [issue["title"] for issue in fake.issues()],
        "comments": {
            n: [(c["user"]["login"], c["body"]) for c in fake.comments(n)] for n in numbers
        },
        "labels": {n: fake.labels(n) for n in numbers},
        "checks": {
            name: [
                (run["name"], run["external_id"], run["conclusion"], run["output"]["title"])
                for run in fake.check_runs(sha)
            ]
            for name, sha in heads
            if name not in ("fvec/evidence", "fvec/onboard")
        },
        "evidence": evidence(bot),
        "reactions": {c["id"]: fake.reactions(c["id"]) for n in numbers for c in fake.comments(n)},
    }


def evidence(bot: Bot) -> dict[str, str]:
    """The files of the evidence branch, whose commits tell the time."""
    if "fvec/evidence" not in bot.fake.branches():
        return {}
    listed = bot.fake.git("ls-tree", "-r", "fvec/evidence").splitlines()
    return {line.split("\t")[1]: line.split()[2] for line in listed}


def without_addresses(seen: dict[str, Any]) -> dict[str, Any]:
    """Leave out which GitHub a text points at, and which commit: a repeated step may move it."""

    def plain(value: Any) -> Any:
        if isinstance(value, str):
            for commit in set(KEPT.findall(value)):
                value = value.replace(commit, "COMMIT")
            return re.sub(r"http://127\.0\.0\.1:\d+", "URL", value)
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        return [plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value

    return plain(seen)


def analysis(bot: Bot) -> Callable[[], Context]:
    sha = bot.fake.sha()
    return lambda: bot.context("analyse", attempt_of="9", sha=sha)


def rerun(bot: Bot) -> Callable[[], Context]:
    number = bot.published()
    asking = bot.fake.comment(number, "/fvec rerun")
    told = {"number": number, "comment_id": asking, "asked_by": "maintainer"}
    sha = bot.fake.pull(number).head_sha
    return lambda: bot.context("rerun", attempt_of="9", sha=sha, **told)


def freshening(bot: Bot) -> Callable[[], Context]:
    bot.published()
    bot.fake.commit({MODEL: model_of(bot) + "# moved\n"})
    sha = bot.fake.sha()
    return lambda: bot.context("freshen", attempt_of="9", sha=sha)


def onboarding(bot: Bot) -> Callable[[], Context]:
    names = bot.fake.git("ls-tree", "-r", "--name-only", "main").splitlines()
    gone = [name for name in names if name.startswith((".github/", "traffic/"))]
    sha = bot.fake.commit(dict.fromkeys(gone))
    return lambda: bot.context("analyse", attempt_of="9", sha=sha)


def refused(bot: Bot) -> Callable[[], Context]:
    number = bot.fake.open_pull("topic", files={"a": "a"})
    asking = bot.fake.comment(number, "/fvec judge", login="outsider")
    told = {"number": number, "comment_id": asking, "asked_by": "outsider"}
    sha = bot.fake.pull(number).head_sha
    return lambda: bot.context("judge", attempt_of="9", sha=sha, **told)


def failed(bot: Bot) -> Callable[[], Context]:
    bot.program.breaks(4, "something is missing", "get it")
    return analysis(bot)


@pytest.fixture
def fresh(ran: Ran, program: Program, tmp_path) -> Callable[[str], Any]:
    """Return what makes a GitHub of its own with the bot on it."""
    ran.keep(1)
    program.leaves(ran)
    program.answers(verified(ran, 1))

    def made(fake: FakeGitHub, name: str) -> Bot:
        fake.now = lambda: NOW  # commits of the same content are the same
        push_base(fake, ran)
        return Bot(fake, program, tmp_path / name)

    return made


KINDS = pytest.mark.parametrize(
    "prepare", [analysis, rerun, freshening, onboarding, refused, failed], ids=lambda p: p.__name__
)


@KINDS
def test_a_job_killed_after_a_write_leaves_what_an_undisturbed_one_leaves(fresh, prepare) -> None:
    try_kills(fresh, prepare, sampled)


@pytest.mark.live
@KINDS
def test_a_job_killed_after_any_write_leaves_what_an_undisturbed_one_leaves(fresh, prepare) -> None:
    try_kills(fresh, prepare, lambda writes: range(1, writes + 1))


def sampled(writes: int) -> list[int]:
    """Every fourth write, and the last ones, which are the jobs' own: each takes a second."""
    return sorted({*range(2, writes, 4), *range(max(1, writes - 5), writes + 1)})


def try_kills(fresh, prepare: Prepared, chosen: Callable[[int], Iterable[int]]) -> None:
    with FakeGitHub() as fake:
        bot = fresh(fake, "work")
        context = prepare(bot)
        put_back = noted(bot)
        before = len(fake.writes)
        ended = perform(context())
        expected, writes = without_addresses(left(bot)), len(fake.writes) - before
        assert 0 < writes < MOST_WRITES
        for nth in chosen(writes):
            put_back()
            assert kill(bot, context, nth), f"the job has no write {nth}"
            again = perform(context())
            assert (nth, comparable(again)) == (nth, comparable(ended))
            seen = without_addresses(left(bot))
            differs = {k: (seen[k], expected[k]) for k in expected if seen[k] != expected[k]}
            assert (nth, differs) == (nth, {})


def noted(bot: Bot) -> Callable[[], None]:
    """Note what is at GitHub and in the bot's own folder; return what puts it back."""
    github, aside = bot.fake.noted(), bot.work.with_name(f"{bot.work.name}-noted")
    bot.work.mkdir(exist_ok=True)
    shutil.copytree(bot.work, aside, symlinks=True)

    def put_back() -> None:
        github()
        shutil.rmtree(bot.work)
        shutil.copytree(aside, bot.work, symlinks=True)

    return put_back


def kill(bot: Bot, context: Callable[[], Context], nth: int) -> bool:
    """Perform the job until its nth write; say whether it came that far."""
    try:
        with killed_after(bot, nth):
            perform(context())
    except Killed:
        return True
    return False


def comparable(result: JobResult) -> tuple[str, str]:
    return result.state, result.summary


def test_what_was_measured_before_a_kill_is_not_measured_again(fresh) -> None:
    with FakeGitHub() as fake:
        bot = fresh(fake, "work")
        context = rerun(bot)
        measured = len(bot.program.asked)
        assert kill(bot, context, 3)
        perform(context())
        assert len(bot.program.asked) == measured + 1
