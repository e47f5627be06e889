"""The bot at work on the fake GitHub: what tests of several modules share."""

from bot.github.auth import TokenCredentials
from bot.github.client import connect
from bot.github.repository import Repository, marker
from tests.github.fake_github import FakeGitHub
from tests.passing_time import PassingTime

BRANCH = "fvec/lookups/features"
KEY = "verdict"
SAID = {
    "status": "completed",
    "conclusion": "success",
    "title": "accepted",
    "summary": "1.4 times",
}


def opened(fake: FakeGitHub, passing: PassingTime, token: str = "", login: str = "") -> Repository:
    """The repository, as the bot unless another is named; over plain HTTP."""
    credentials = TokenCredentials(token or fake.token, login=login or fake.login, api_url=fake.url)
    client = connect(credentials, throttle=False, clock=passing.clock)
    return client.repository(fake.full_name)


def marked(text: str, key: str = KEY) -> str:
    return f"{marker(key)}\n{text}"


def log(fake: FakeGitHub, branch: str) -> list[str]:
    """The subjects of a branch's commits, newest first."""
    return fake.git("log", "--format=%s", branch).splitlines()
