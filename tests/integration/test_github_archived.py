"""A repository that takes no write: nothing is begun there, whatever was asked for."""

import pytest

from bot.jobs.context import JobResult
from tests.github_jobs import Bot

pytest_plugins = [
    "tests.github.fixtures",
    "tests.github.recorded_fixtures",
    "tests.github_jobs_fixtures",
]


@pytest.mark.parametrize("kind", ["help", "onboard", "freshen"])
@pytest.mark.parametrize("why", ["archived", "disabled"])
def test_what_measures_nothing_is_not_begun_either(bot: Bot, kind: str, why: str) -> None:
    bot.fake.world.closed = why
    told = f"the repository is {why}: nothing can be written there"
    assert bot.does(kind) == JobResult("refused", told, shown=False)
    assert bot.fake.writes == []
