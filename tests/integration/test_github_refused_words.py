"""A word that GitHub refuses holds up no verdict; a verdict that it refuses, no word."""

import pytest

from bot.github.replies import CheckRun
from bot.jobs import underway
from tests.github.recorded_results import FIRST, Ran
from tests.github_jobs import Bot, check, comment, history, verified

pytest_plugins = [
    "tests.github.fixtures",
    "tests.github.recorded_fixtures",
    "tests.github_jobs_fixtures",
]
pytestmark = pytest.mark.usefixtures("drawn_once")

REFUSED = "Resource not accessible by integration"


def _begun(bot: Bot, number: int) -> CheckRun:
    """Show that a pull request is measured, as the service does; return its check run."""
    head = bot.fake.pull(number).head_sha
    context = bot.context("rerun", number=number, sha=head)
    underway.begin(context)
    there = context.repository.check_run_exists(head, "fvec", "verdict")
    assert there is not None
    assert there.status == "in_progress"
    return there


def _refuse_comments(bot: Bot, number: int) -> None:
    path = f"/repos/{bot.fake.full_name}/issues/{number}/comments"
    bot.fake.faults.add("403 permission", "POST", path, times=99)


def test_a_comment_that_is_refused_leaves_no_check_in_progress(bot: Bot, ran: Ran) -> None:
    number = bot.published()
    head = _begun(bot, number).head_sha
    bot.program.answers(verified(ran, 1))
    _refuse_comments(bot, number)

    result = bot.does("rerun", number=number, sha=head)

    assert result.state == "done"
    assert result.summary.startswith("accepted (reproduced), ")
    assert REFUSED in result.summary
    assert check(bot, head)[0] == "success"
    assert check(bot, head)[1].startswith("accepted: ")
    assert history(bot, f"pulls/{FIRST}") == [("accepted", "reproduced")]


def test_an_error_is_told_by_the_check_where_no_comment_is_taken(bot: Bot) -> None:
    number = bot.published()
    head = _begun(bot, number).head_sha
    bot.program.breaks(70, "it broke", "look at it")
    _refuse_comments(bot, number)

    result = bot.does("rerun", number=number, sha=head)

    assert (result.state, result.summary) == ("failed", "it broke")
    assert check(bot, head) == ("neutral", "Nothing was decided: it broke")


def test_a_check_run_that_is_refused_leaves_the_verdict_in_the_comment(bot: Bot, ran: Ran) -> None:
    number = bot.published()
    head = bot.fake.pull(number).head_sha
    bot.program.answers(verified(ran, 1))
    for method in ("POST", "PATCH"):
        bot.fake.faults.add("403 permission", method, "*/check-runs*", times=99)

    result = bot.does("rerun", number=number, sha=head)

    assert result.state == "done"
    assert REFUSED in result.summary
    assert "**accepted**: `reproduced`" in comment(bot, number)


def test_a_verdict_that_can_be_told_nowhere_is_an_error(bot: Bot, ran: Ran) -> None:
    number = bot.published()
    head = bot.fake.pull(number).head_sha
    bot.program.answers(verified(ran, 1))
    _refuse_comments(bot, number)
    for method in ("POST", "PATCH"):
        bot.fake.faults.add("403 permission", method, "*/check-runs*", times=99)

    result = bot.does("rerun", number=number, sha=head)

    assert result.state == "failed"
    assert REFUSED in result.summary
