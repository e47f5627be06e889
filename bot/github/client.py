"""The bot on GitHub: who it is there, and the repositories that it works on."""

from __future__ import annotations

from functools import cached_property

from bot.github.api import CLOCK, Api, Clock
from bot.github.auth import AppCredentials, Credentials, check_repository
from bot.github.errors import (
    Conflict,
    Forbidden,
    GitHubError,
    NotFound,
    RateLimited,
    Unauthorized,
    Unavailable,
)
from bot.github.replies import AppReply, UserReply
from bot.github.repository import Repository
from layers.errors import Missing

__all__ = [
    "Client",
    "Conflict",
    "Forbidden",
    "GitHubError",
    "NotFound",
    "RateLimited",
    "Unauthorized",
    "Unavailable",
    "connect",
]


class Client:
    """One set of credentials at work."""

    def __init__(
        self, credentials: Credentials, *, throttle: bool = True, clock: Clock = CLOCK
    ) -> None:
        """Ask nothing yet."""
        self.credentials = credentials
        self._throttle = throttle
        self._clock = clock
        self._apis: dict[str, Api] = {}

    @cached_property
    def login(self) -> str:
        """Return the bot's own login, such as "fvec[bot]"; raises `GitHubError` or `Missing`."""
        if self.app is not None:
            return f"{self.app.get('/app', AppReply).slug}[bot]"
        if self.credentials.login is not None:
            return self.credentials.login
        try:
            return self._api("").get("/user", UserReply).login
        except (Forbidden, NotFound) as error:
            raise Missing(
                "GitHub does not say whose token this is, as of every installation's token",
                hint="set FVEC_GITHUB_LOGIN to the login that it writes as: `my-app[bot]`",
            ) from error

    @property
    def app(self) -> Api | None:
        """Return requests as the App itself, or None without an App."""
        return self.credentials.api if isinstance(self.credentials, AppCredentials) else None

    def repository(self, full_name: str) -> Repository:
        """Return a repository ("owner/name") to work on; raises `InvalidInput`, `GitHubError`."""
        return Repository(self._api(check_repository(full_name)), full_name, self.login)

    def _api(self, repository: str) -> Api:
        """Return requests about one repository: an App has a token for each, others one for all."""
        key = repository.lower() if self.app is not None else ""
        if key not in self._apis:
            self._apis[key] = Api(
                self.credentials.auth(repository),
                base_url=self.credentials.api_url,
                throttle=self._throttle,
                secrets=self.credentials.secrets,
                clock=self._clock,
            )
        return self._apis[key]


def connect(credentials: Credentials, *, throttle: bool = True, clock: Clock = CLOCK) -> Client:
    """Return the bot at `credentials.api_url`; `throttle` keeps requests apart as GitHub advises."""
    return Client(credentials, throttle=throttle, clock=clock)
