"""Fixtures of the bot at work: `pytest_plugins = [..., "tests.github_bot_fixtures"]`."""

import pytest

from bot.github.repository import Repository
from tests.github.fake_github import FakeGitHub
from tests.github_bot import BRANCH, opened
from tests.passing_time import PassingTime


@pytest.fixture
def passing(fake: FakeGitHub) -> PassingTime:
    """The time here and at GitHub."""
    time = PassingTime()
    fake.now = lambda: time.now
    return time


@pytest.fixture
def repository(fake: FakeGitHub, passing: PassingTime) -> Repository:
    return opened(fake, passing)


@pytest.fixture
def head(fake: FakeGitHub) -> str:
    """The commit of a branch of ours."""
    return fake.commit({"model.py": "fast = True\n"}, branch=BRANCH, login=fake.login)


@pytest.fixture
def number(fake: FakeGitHub) -> int:
    """The number of a person's pull request."""
    return fake.open_pull("topic", files={"a.py": "a = 1\n"})
