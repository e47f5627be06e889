"""Whose evidence is stale when a base moves: the default branch, or what a change stands on."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.github.fake_github import FakeGitHub
from tests.github.recorded_results import FIRST, SECOND, Ran, publish, push_base
from tests.github_jobs import MODEL, Bot, Program, check, model_of

pytest_plugins = [
    "tests.github.fixtures",
    "tests.github.recorded_fixtures",
    "tests.github_jobs_fixtures",
]
pytestmark = pytest.mark.usefixtures("drawn_once")


@pytest.fixture
def stacked(ran: Ran, program: Program, tmp_path: Path) -> Iterator[Bot]:
    """The bot on a repository with two drafts, the second on top of the first."""
    program.leaves(ran)
    with FakeGitHub() as fake:
        push_base(fake, ran)
        bot = Bot(fake, program, tmp_path / "work")
        assert bot.does("analyse", sha=fake.sha()).state == "done"
        yield bot


def stands(bot: Bot, branch: str) -> tuple[str, bool]:
    """Conclusion of the check run, and whether the pull request is labelled as stale."""
    number = number_of(bot, branch)
    head = bot.fake.pull(number).head_sha
    return check(bot, head)[0], "fvec:stale" in bot.fake.labels(number)


def number_of(bot: Bot, branch: str) -> int:
    return next(pull["number"] for pull in bot.fake.pulls() if pull["head"]["ref"] == branch)


def test_an_analysis_marks_whose_evidence_is_stale_whatever_it_finds(bot: Bot) -> None:
    bot.published()
    bot.fake.commit({MODEL: model_of(bot) + "# moved\n"})
    result = bot.does("analyse", sha=bot.fake.sha())  # the recorded run is about another commit
    assert result.state == "failed"
    assert stands(bot, FIRST) == ("neutral", True)


def test_a_change_that_is_measured_anew_is_stale_no_longer(ran: Ran, github: FakeGitHub) -> None:
    ran.keep(1)
    (made,) = publish(ran, github)
    github.world.add_label("fvec:stale")
    github.world.issues[made.number].labels.append("fvec:stale")
    ran.of_run("newer")
    ran.again(1)
    assert [one.kind for one in publish(ran, github)] == ["updated"]
    assert github.labels(made.number) == ["fvec"]


def test_a_commit_on_the_lower_branch_makes_the_upper_one_stale(stacked: Bot) -> None:
    model = model_of(stacked, FIRST)
    stacked.fake.commit({MODEL: model + "# by hand\n"}, branch=FIRST)
    stacked.does("freshen", sha=stacked.fake.sha(FIRST))
    assert stands(stacked, SECOND) == ("neutral", True)


@pytest.mark.parametrize("method", ["merge", "squash"])
def test_what_stands_on_a_merged_change_is_as_good_as_it_was(
    stacked: Bot, tmp_path: Path, method: str
) -> None:
    lower, upper = number_of(stacked, FIRST), number_of(stacked, SECOND)
    stacked.fake.merge(lower, method=method)
    stacked.fake.world.pulls[upper].base = "main"  # as GitHub does where the branch is deleted
    stacked.fake.delete_branch(FIRST)
    elsewhere = replace(stacked, work=tmp_path / "elsewhere")  # where no mirror has the commit
    assert elsewhere.does("freshen", sha=stacked.fake.sha()).summary == "all are current"
    assert stands(stacked, SECOND) == ("success", False)


def test_what_stands_on_a_change_that_was_merged_otherwise_is_stale(
    stacked: Bot, tmp_path: Path
) -> None:
    lower, upper = number_of(stacked, FIRST), number_of(stacked, SECOND)
    stacked.fake.merge(lower, method="squash")
    stacked.fake.commit({MODEL: model_of(stacked) + "# otherwise\n"})
    stacked.fake.world.pulls[upper].base = "main"
    stacked.fake.delete_branch(FIRST)
    replace(stacked, work=tmp_path / "elsewhere").does("freshen", sha=stacked.fake.sha())
    assert stands(stacked, SECOND) == ("neutral", True)
