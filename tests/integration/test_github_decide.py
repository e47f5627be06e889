"""What follows from events, with the facts as a GitHub on loopback has them: reads only."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bot.jobs import decide
from bot.jobs.decide import Surroundings
from bot.wake import events
from bot.wake.policy import Decision, Sleep, Wake
from tests.github.fake_github import FakeGitHub
from tests.github_jobs import Bot

pytest_plugins = [
    "tests.github.fixtures",
    "tests.github.recorded_fixtures",
    "tests.github_jobs_fixtures",
]
pytestmark = pytest.mark.usefixtures("drawn_once")

MANIFEST = ".github/fvec.yml"


@pytest.fixture(autouse=True)
def reads_alone(bot: Bot):
    """Nothing in this module writes, but for an answer."""
    yield
    methods = {exchange.method for exchange in bot.fake.requests if not exchange.is_git}
    assert methods <= {"GET"} or bot.writing


def around(bot: Bot, **more) -> Surroundings:
    client = bot.client()
    repository = client.repository(bot.fake.full_name)
    return Surroundings(client, repository, datetime.now(UTC), **more)


def decided(bot: Bot, event: tuple[str, dict], **more) -> Decision:
    parsed = events.parse(*event)
    assert parsed is not None
    return decide.decide(parsed, around(bot, **more))


def commanded(bot: Bot, number: int, body: str, login: str = "maintainer") -> Decision:
    comment = bot.fake.comment(number, body, login=login)
    return decided(bot, bot.fake.events.comment(comment))


def with_policy(fake: FakeGitHub, text: str) -> None:
    manifest = fake.git("show", f"main:{MANIFEST}")
    fake.commit({MANIFEST: f"{manifest}\nbot:\n{text}"})


def test_a_release_wakes_an_analysis_of_the_head(bot: Bot) -> None:
    bot.fake.release("v2")
    found = decided(bot, bot.fake.events.release("v2"))
    assert isinstance(found, Wake)
    assert (found.spec.kind, found.spec.sha) == ("analyse", bot.fake.sha())
    assert found.why == "release v2 was published"


def test_the_policy_of_the_default_branch_rules(bot: Bot) -> None:
    with_policy(bot.fake, "  releases: false\n")
    bot.fake.release("v2")
    assert decided(bot, bot.fake.events.release("v2")) == Sleep(
        "a release was published; the manifest says `releases: false`", held=True
    )


def test_a_wrong_manifest_still_wakes_the_job_that_tells_it(bot: Bot) -> None:
    bot.fake.commit({MANIFEST: "schema: fvec.manifest/9\n"})
    bot.fake.release("v2")
    assert isinstance(decided(bot, bot.fake.events.release("v2")), Wake)


def test_a_command_is_pinned_to_the_head_as_it_is_now(bot: Bot) -> None:
    number = bot.fake.open_pull("topic", files={"a": "a"})
    found = commanded(bot, number, "/fvec judge reorder")
    assert isinstance(found, Wake)
    spec = found.spec
    assert (spec.kind, spec.number, spec.sha, spec.change_class, spec.asked_by) == (
        "judge",
        number,
        bot.fake.pull(number).head_sha,
        "reorder",
        "maintainer",
    )


@pytest.mark.parametrize(
    ("body", "login", "why"),
    [
        ("/fvec judge", "outsider", "commands are taken from people who may write"),
        ("/fvec merge", "maintainer", "`merge` is no command"),
        ("/fvec rerun", "maintainer", "`/fvec rerun` is for pull requests that fvec opened"),
        (f"/fvec judge {'0' * 40}", "maintainer", "the head of this pull request is "),
    ],
)
def test_a_command_that_is_refused_is_answered(bot: Bot, body, login, why) -> None:
    number = bot.fake.open_pull("topic", files={"a": "a"})
    found = commanded(bot, number, body, login)
    assert isinstance(found, Sleep)
    assert found.answer
    assert found.why.startswith(why)


def test_a_fork_needs_the_commit_named(bot: Bot) -> None:
    number = bot.fake.open_pull("t", login="outsider", fork="outsider/serve", files={"a": "a"})
    found = commanded(bot, number, "/fvec judge")
    assert isinstance(found, Sleep)
    assert "this comes from a fork" in found.why
    head = bot.fake.pull(number).head_sha
    assert isinstance(commanded(bot, number, f"/fvec judge {head}"), Wake)


def test_a_comment_that_is_not_for_us_costs_no_request(bot: Bot) -> None:
    number = bot.fake.open_pull("topic", files={"a": "a"})
    assert commanded(bot, number, "what does /fvec do?") == Sleep("a comment that is not for us")
    assert bot.fake.requests == []


def test_an_answer_is_a_reaction_and_one_comment(bot: Bot) -> None:
    bot.writing = True
    number = bot.fake.open_pull("topic", files={"a": "a"})
    comment = bot.fake.comment(number, "/fvec merge")
    event = events.parse(*bot.fake.events.comment(comment))
    for _ in range(2):
        found = decide.decide(event, around(bot))
        decide.answer(event, found, around(bot).repository)
    assert bot.fake.reactions(comment) == ["confused"]
    (told,) = [c["body"] for c in bot.fake.comments(number) if c["user"]["login"] == bot.fake.login]
    assert told.startswith("<!-- fvec:help -->\nRefused: `merge` is no command")


def test_a_repository_without_a_manifest_is_asked_once(bot: Bot) -> None:
    bot.fake.commit({MANIFEST: None})
    bot.fake.release("v2")
    event = bot.fake.events.release("v2")
    assert isinstance(decided(bot, event), Wake)
    number = bot.fake.open_pull("fvec/onboard", login=bot.fake.login, files={MANIFEST: "x"})
    assert decided(bot, event) == Sleep(
        "the onboarding pull request waits to be merged; nothing happens before"
    )
    bot.fake.close(number)
    assert decided(bot, event) == Sleep("the onboarding pull request was closed, which means no")


def test_time_wakes_the_first_analysis_and_not_the_same_twice(bot: Bot) -> None:
    first = decide.decide_tick(around(bot), installation=7)
    assert isinstance(first, Wake)
    assert (first.spec.kind, first.spec.installation, first.why) == (
        "analyse",
        7,
        "there is no analysis yet",
    )
    again = decide.decide_tick(around(bot, live_jobs=frozenset({first.spec.key})))
    assert isinstance(again, Sleep)
    assert "is queued or running already" in again.why


def test_what_no_longer_serves_is_left_alone(bot: Bot) -> None:
    with_policy(bot.fake, "  serving: [python3, tools/serves.py]\n")
    asked = []

    def serves(argv):
        asked.append(list(argv))
        return False

    assert decide.decide_tick(around(bot, serves=serves)) == Sleep(
        "there is no analysis yet, but this stack no longer serves"
    )
    assert asked == [["python3", "tools/serves.py"]]
    assert isinstance(decide.decide_tick(around(bot)), Wake)  # nobody can tell


def analysed(bot: Bot, sha: str, versions: dict[str, str]) -> None:
    """Let the evidence branch say that a commit was analysed a while ago."""
    at = (datetime.now(UTC) - timedelta(days=3)).isoformat(timespec="seconds")
    analysis = {"sha": sha, "at": at, "run_id": "r", "conclusion": "c", "versions": versions}
    state = {"schema": "fvec.state/1", "analysis": analysis, "pushed": {}}
    bot.fake.commit({"state.json": json.dumps(state)}, branch="fvec/evidence", login="fvec[bot]")


def test_a_version_that_moved_since_the_last_analysis_wakes_one(bot: Bot) -> None:
    old = bot.fake.sha()
    bot.fake.commit({"requirements.txt": "torch==2.8.0\n"})
    before = decide._versions(around(bot).repository, bot.fake.sha())
    analysed(bot, old, before)
    bot.fake.commit({"requirements.txt": "torch==2.9.0\n"})
    found = decide.decide_tick(around(bot))
    assert isinstance(found, Wake)
    assert found.why == ("torch (requirements.txt) from ==2.8.0 to ==2.9.0 since the last analysis")


def test_a_push_under_open_pull_requests_looks_whose_evidence_is_stale(bot: Bot) -> None:
    bot.writing = True  # publishing writes
    bot.published()
    old = bot.fake.sha()
    new = bot.fake.commit({"README.md": "more"})
    found = decided(bot, bot.fake.events.push("main", old, new))
    assert isinstance(found, Wake)
    assert (found.spec.kind, found.spec.sha) == ("freshen", new)


def test_a_workflow_waits_for_no_jitter(bot: Bot) -> None:
    analysed(bot, "0" * 40, {})
    bot.fake.release("v2")
    event = events.parse(*bot.fake.events.release("v2"))
    now = around(bot)
    found = decide.decide(event, replace(now, jitter=False))
    assert isinstance(found, Wake)
    assert found.not_before <= now.now
