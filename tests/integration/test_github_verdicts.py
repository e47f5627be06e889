"""What is said about a pull request: reruns, judgements, stale evidence, on a GitHub on loopback."""

import hashlib

import pytest

from bot.jobs.context import JobResult
from bot.jobs.runner import perform
from layers.base import ChangeClass
from layers.events import Silent
from tests.github.recorded_results import FIRST, Ran
from tests.github_jobs import (
    MANIFEST,
    MODEL,
    Bot,
    check,
    comment,
    dashboard,
    diff,
    history,
    judged,
    kept,
    model_of,
    verified,
)
from tests.unit.test_judge_rendering import rejected

pytest_plugins = [
    "tests.github.fixtures",
    "tests.github.recorded_fixtures",
    "tests.github_jobs_fixtures",
]
pytestmark = pytest.mark.usefixtures("drawn_once")

# Rerun


def test_a_rerun_updates_comment_and_check_run(bot: Bot, ran: Ran) -> None:
    number = bot.published()
    head = bot.fake.pull(number).head_sha
    bot.program.answers(verified(ran, 1))
    asking = bot.fake.comment(number, "/fvec rerun")
    result = bot.does("rerun", number=number, sha=head, comment_id=asking, asked_by="maintainer")

    assert result.state == "done"
    assert result.summary.startswith("accepted (reproduced), ")
    conclusion, title = check(bot, head)
    assert conclusion == "success"
    assert title.startswith("accepted: ")
    body = comment(bot, number)
    assert f"### Measured again at `{head[:10]}`" in body
    assert "asked for by `maintainer`" in body
    assert "**accepted**: `reproduced`" in body
    assert "It never makes one larger" in body
    assert bot.fake.reactions(asking) == ["eyes", "rocket"]
    assert history(bot, f"pulls/{FIRST}") == [("accepted", "reproduced")]
    assert kept(bot, f"pulls/{FIRST}/verify.json")["schema"] == "fvec.verify/1"


def test_a_rerun_measures_the_evidence_that_was_published_at_the_head(bot: Bot, ran: Ran) -> None:
    number = bot.published()
    bot.program.answers(verified(ran, 1))
    bot.asked("rerun", number)

    asked = bot.program.asked[-1]
    assert (asked["program"], asked["commit"]) == ("verify", bot.fake.pull(number).head_sha)
    evidence = bot.fake.git("show", f"fvec/evidence:pulls/{FIRST}/evidence.json")
    assert asked["inputs"] == {
        "evidence.json": hashlib.sha256(f"{evidence}\n".encode()).hexdigest()
    }


def test_what_was_said_before_is_shown_collapsed_in_the_one_comment(bot: Bot, ran: Ran) -> None:
    number = bot.published()
    head = bot.fake.pull(number).head_sha
    for ratio in (1.0, 0.7):
        bot.program.answers(verified(ran, 1, ratio))
        bot.asked("rerun", number)

    assert check(bot, head)[0] == "failure"
    body = comment(bot, number)
    assert "**rejected**: `gain_differs`" in body
    assert "<summary>Earlier (1)</summary>" in body
    assert "| accepted | `reproduced` |" in body
    assert history(bot, f"pulls/{FIRST}") == [
        ("rejected", "gain_differs"),
        ("accepted", "reproduced"),
    ]


def test_an_outsider_commands_nothing(bot: Bot) -> None:
    number = bot.published()
    measured = len(bot.program.asked)
    asking = bot.fake.comment(number, "/fvec rerun", login="outsider")
    head = bot.fake.pull(number).head_sha
    result = bot.does("rerun", number=number, sha=head, comment_id=asking, asked_by="outsider")

    assert result == JobResult(
        "refused", "commands are taken from people who may write to this repository", shown=False
    )
    assert bot.fake.reactions(asking) == ["confused"]
    assert comment(bot, number, "help").startswith(
        "<!-- fvec:help -->\nRefused: commands are taken from people who may write"
    )
    assert len(bot.program.asked) == measured


def test_a_branch_that_a_person_edited_is_judged_whole(bot: Bot) -> None:
    number = bot.published()
    head = bot.fake.commit_to_pull(number, {MODEL: model_of(bot, FIRST) + "# mine\n"})
    patch = diff(bot, "main", head)
    bot.program.answers(judged(patch, bot.fake.sha()))
    result = bot.asked("rerun", number)

    asked = bot.program.asked[-1]
    assert (result.state, asked["program"], asked["commit"]) == ("done", "judge", bot.fake.sha())
    assert asked["options"] == ["--patch", "--class", "exact", "--json", "--out"]
    assert asked["inputs"] == {"patch.diff": hashlib.sha256(patch).hexdigest()}
    assert check(bot, head)[0] == "success"
    assert "holds commits that fvec did not push" in comment(bot, number)


def test_a_pull_request_of_somebody_else_is_not_rerun(bot: Bot) -> None:
    number = bot.fake.open_pull("topic", files={MODEL: model_of(bot) + "# topic\n"})
    result = bot.asked("rerun", number)
    assert result.state == "refused"
    assert "`/fvec judge` judges any" in comment(bot, number, "help")


def test_a_patch_that_was_changed_on_the_evidence_branch_is_not_reported_on(bot: Bot) -> None:
    number = bot.published()
    bot.fake.commit({f"pulls/{FIRST}/patch.diff": "other\n"}, branch="fvec/evidence")
    result = bot.asked("rerun", number)

    assert result.state == "failed"
    assert result.summary == f"the patch that is kept of #{number} is not what its branch changes"
    assert check(bot, bot.fake.pull(number).head_sha)[0] == "neutral"


def test_a_report_about_another_patch_is_refused(bot: Bot, ran: Ran) -> None:
    number = bot.published()
    report = verified(ran, 1)
    other = report.judged.model_copy(update={"patch_sha256": "1" * 64})
    bot.program.answers(report.model_copy(update={"judged": other}))
    result = bot.asked("rerun", number)
    assert result.state == "failed"
    assert "about another patch" in result.summary


class Meanwhile(Silent):
    """Does something at the moment at which the measuring begins."""

    def __init__(self, happens) -> None:
        self._happens = happens

    def phase(self, name: str, detail: str) -> None:
        if name == "measure":
            self._happens()


def test_a_head_that_moved_meanwhile_gets_no_report(bot: Bot, ran: Ran) -> None:
    number = bot.published()
    old = bot.fake.pull(number).head_sha
    bot.program.answers(verified(ran, 1, 0.7))
    context = bot.context("rerun", number=number, sha=old)
    context.events = Meanwhile(lambda: bot.fake.commit_to_pull(number, {"a": "a"}))
    result = perform(context)

    new = bot.fake.pull(number).head_sha
    assert result == JobResult(
        "superseded", f"the head of #{number} moved from {old[:10]} to {new[:10]}"
    )
    assert f"**Not reported**: `{old[:10]}` was to be measured" in comment(bot, number)
    assert check(bot, old)[0] == "neutral"  # nothing is in progress there any more
    assert bot.fake.check_runs(new) == []


def test_a_pull_request_that_was_closed_is_not_measured(bot: Bot) -> None:
    number = bot.published()
    bot.fake.close(number)
    result = bot.asked("rerun", number)
    assert result == JobResult("superseded", f"#{number} is closed")
    assert "was closed meanwhile" in comment(bot, number)


# Judge


def test_a_person_s_pull_request_is_judged_on_its_base(bot: Bot) -> None:
    base = bot.fake.sha()
    number = bot.fake.open_pull("topic", files={MODEL: model_of(bot) + "# topic\n"})
    bot.fake.commit({"README.md": "moved on"})  # the base has moved since
    head = bot.fake.pull(number).head_sha
    patch = diff(bot, base, head)
    bot.program.answers(judged(patch, base, change_class=ChangeClass.REORDER))
    result = bot.asked("judge", number, change_class="reorder")

    asked = bot.program.asked[-1]
    assert (result.state, asked["commit"]) == ("done", base)
    assert asked["options"] == ["--patch", "--class", "reorder", "--json", "--out"]
    assert check(bot, head)[0] == "success"
    body = comment(bot, number)
    assert f"### Judged at `{head[:10]}`" in body
    assert "It never makes one larger" not in body
    assert history(bot, f"judged/{number}") == [("accepted", "gain_confirmed")]


def test_a_fork_is_judged_as_data_at_the_named_commit(bot: Bot) -> None:
    base = bot.fake.sha()
    files = {MODEL: model_of(bot) + "# fork\n"}
    number = bot.fake.open_pull("topic", login="outsider", fork="outsider/serve", files=files)
    head = bot.fake.pull(number).head_sha
    bot.program.answers(judged(diff(bot, base, head), base, rejected()))
    result = bot.asked("judge", number)

    assert result.summary == "rejected (outputs_differ)"
    assert bot.program.asked[-1]["commit"] == base  # nobody else's commit is checked out
    assert check(bot, head)[0] == "failure"


def test_a_base_with_a_weaker_sandbox_rules_nothing(bot: Bot) -> None:
    manifest = bot.fake.git("show", f"main:{MANIFEST}")
    bot.fake.commit({MANIFEST: f"{manifest}\nsandbox:\n  mode: process\n"})
    number = bot.fake.open_pull("topic", files={MODEL: model_of(bot) + "# topic\n"})
    bot.fake.commit({MANIFEST: manifest})
    result = bot.asked("judge", number)

    assert result.state == "failed"
    assert "names a weaker sandbox (process)" in result.summary
    assert bot.program.asked == []


def test_an_error_of_a_judgement_is_told_on_the_pull_request(bot: Bot) -> None:
    number = bot.fake.open_pull("topic", files={MODEL: model_of(bot) + "# topic\n"})
    bot.program.breaks(3, "the patch changes what judges it", "leave traffic/ alone")
    asking = bot.fake.comment(number, "/fvec judge")
    head = bot.fake.pull(number).head_sha
    bot.does("judge", number=number, sha=head, comment_id=asking, asked_by="maintainer")

    assert check(bot, head) == ("neutral", "Nothing was decided: the patch changes what judges it")
    assert "What to do: leave traffic/ alone" in comment(bot, number)
    assert bot.fake.reactions(asking) == ["eyes", "confused"]


# Help


def test_help_is_one_comment(bot: Bot) -> None:
    number = bot.fake.open_issue("How?")
    for _ in range(2):
        assert bot.asked("help", number) == JobResult(
            "done", "the commands were listed", shown=False
        )
    assert "| `/fvec rerun [SHA]` |" in comment(bot, number, "help")
    assert len(bot.fake.issues()) == 1  # no dashboard for that


# Stale evidence


def stale_after(bot: Bot, files: dict[str, str]) -> tuple[str, list[str]]:
    """Conclusion and labels of the published pull request after a push to main."""
    number = next(pull["number"] for pull in bot.fake.pulls())
    bot.fake.commit(files)
    assert bot.does("freshen", sha=bot.fake.sha()).state == "done"
    return check(bot, bot.fake.pull(number).head_sha)[0], bot.fake.labels(number)


def test_evidence_is_stale_where_what_is_served_has_moved_and_current_again(bot: Bot) -> None:
    bot.published()
    model = model_of(bot)
    assert stale_after(bot, {"README.md": "words"}) == ("success", ["fvec"])
    assert stale_after(bot, {MODEL: model + "# moved\n"}) == ("neutral", ["fvec", "fvec:stale"])
    assert "stale | " in dashboard(bot)
    assert stale_after(bot, {MODEL: model}) == ("success", ["fvec"])


def test_a_verdict_that_was_taken_back_stays_so(bot: Bot, ran: Ran) -> None:
    number = bot.published()
    bot.program.answers(verified(ran, 1, 0.7))
    bot.asked("rerun", number)
    assert stale_after(bot, {MODEL: model_of(bot) + "# moved\n"})[0] == "failure"


def test_a_rerun_on_the_old_base_leaves_a_stale_check_neutral(bot: Bot, ran: Ran) -> None:
    number = bot.published()
    base, head = bot.fake.sha(), bot.fake.pull(number).head_sha
    model = model_of(bot)
    stale_after(bot, {MODEL: model + "# moved\n"})
    bot.program.answers(verified(ran, 1))
    assert bot.asked("rerun", number).summary.startswith("accepted (reproduced)")
    assert check(bot, head) == ("neutral", f"reproduced on {base[:10]}; main has moved")
    assert "fvec:stale" in bot.fake.labels(number)
    assert stale_after(bot, {MODEL: model}) == ("success", ["fvec"])


def test_a_rerun_finds_by_itself_that_the_base_has_moved(bot: Bot, ran: Ran) -> None:
    number = bot.published()
    bot.fake.commit({MODEL: model_of(bot) + "# moved\n"})
    bot.program.answers(verified(ran, 1))
    bot.asked("rerun", number)
    assert check(bot, bot.fake.pull(number).head_sha)[0] == "neutral"
    assert "fvec:stale" in bot.fake.labels(number)
