"""Credentials: read from the environment once, shown to GitHub alone.

    FVEC_GITHUB_TOKEN             a token: personal, of GitHub Actions, or minted elsewhere
    FVEC_GITHUB_LOGIN             whose it is, where GitHub does not tell: `my-app[bot]`
    FVEC_APP_ID                   or a GitHub App: its id and the file with its private key
    FVEC_APP_PRIVATE_KEY_FILE
    FVEC_GITHUB_API_URL           another GitHub than github.com; GITHUB_API_URL in Actions

An App asks for one token per repository, with the permissions below and no other, and anew before
it ends. No value of any of them is in a repr, a message or a log.
"""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from github import Auth
from jwt.exceptions import PyJWTError

from bot.github.api import CLOCK, DEFAULT_API_URL, Api, Clock, check_api_url, path_of
from bot.github.errors import Conflict, Forbidden, NotFound
from bot.github.replies import NumberedReply, TokenReply
from bot.wake.jobs import LOGIN, REPOSITORY
from layers.errors import InvalidInput, Location, Missing

ACTIONS_LOGIN = "github-actions[bot]"
# What the bot does and nothing else: never `workflows`, never `administration`.
PERMISSIONS: Final[Mapping[str, str]] = {
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
}
_FRESH_S = 300.0  # what a token is good for, at least, when it is handed out
_LARGEST_KEY_BYTES = 65_536
_PRINTABLE = re.compile(r"[\x21-\x7e]{1,4096}")
# How GitHub refuses a token for a repository that an installation does not have (any more).
_OTHER_NAME = re.compile(r"\brepository that does not exist\b|\bto the parent installation\b")
_APP_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HOW = (
    "set FVEC_GITHUB_TOKEN to a token for this repository alone with contents, pull requests, issues "
    "and checks: write (in Actions: permissions of the job, and ${{ github.token }}); or FVEC_APP_ID "
    "and FVEC_APP_PRIVATE_KEY_FILE of a GitHub App with these permissions"
)


class Credentials(ABC):
    """What the bot shows GitHub at `api_url`; `login` is whose it is, None until GitHub is asked."""

    api_url: str
    login: str | None

    @staticmethod
    def from_environment(environ: Mapping[str, str]) -> Credentials:
        """Return the credentials that the environment names.

        Raises `Missing` where it names none, and `InvalidInput` for what cannot be one.
        """
        environ = {name: value.strip() for name, value in environ.items() if value.strip()}
        api_url = environ.get("FVEC_GITHUB_API_URL") or environ.get("GITHUB_API_URL")
        address = check_api_url(api_url or DEFAULT_API_URL)
        of_app = "FVEC_APP_ID" in environ or "FVEC_APP_PRIVATE_KEY_FILE" in environ
        if of_app and "FVEC_GITHUB_TOKEN" in environ:
            raise InvalidInput(
                "both FVEC_GITHUB_TOKEN and a GitHub App are given", hint="unset one of them"
            )
        if of_app:
            return _app_from(environ, address)
        if "FVEC_GITHUB_TOKEN" not in environ:
            raise Missing("no credentials for GitHub", hint=_HOW)
        return TokenCredentials(
            environ["FVEC_GITHUB_TOKEN"], login=_login_from(environ), api_url=address
        )

    @abstractmethod
    def auth(self, repository: str, /) -> Auth.Auth:
        """Return what authenticates requests about `repository` ("owner/name")."""

    def token(self, repository: str) -> str:
        """Return a token for `repository`, for git over HTTPS; an App's is good for five minutes.

        Raises `GitHubError` where an App gets none.
        """
        return self.auth(repository).token

    @abstractmethod
    def secrets(self) -> tuple[str, ...]:
        """Return every value that must not come out."""

    def __repr__(self) -> str:
        """Return the kind alone."""
        return f"{type(self).__name__}(...)"


class TokenCredentials(Credentials):
    """One token for everything."""

    def __init__(
        self, token: str, *, login: str | None = None, api_url: str = DEFAULT_API_URL
    ) -> None:
        """Keep a token; raises `InvalidInput` for what cannot stand in a header."""
        if not _PRINTABLE.fullmatch(token):
            raise InvalidInput("FVEC_GITHUB_TOKEN holds no token: blanks or control characters")
        self._token = token
        self.login = login
        self.api_url = api_url

    def auth(self, _repository: str, /) -> Auth.Auth:
        """Return the token, whatever the repository."""
        return Auth.Token(self._token)

    def secrets(self) -> tuple[str, ...]:
        """Return the token."""
        return (self._token,)


class AppCredentials(Credentials):
    """A GitHub App; `api` makes requests as the App itself."""

    def __init__(
        self,
        app_id: str,
        private_key: str,
        *,
        api_url: str = DEFAULT_API_URL,
        throttle: bool = True,
        clock: Clock = CLOCK,
    ) -> None:
        """Use an App's private key (PEM); raises `InvalidInput` for one that does not sign."""
        self.api_url = api_url
        self.login = None
        self._clock = clock
        self._lock = threading.Lock()
        self._minted: dict[str, InstallationAuth] = {}
        app = Auth.AppAuth(app_id, private_key)
        if not _signs(app):
            raise InvalidInput(
                "the App's private key does not sign", hint="an RSA key as GitHub hands it out: PEM"
            )
        self.api = Api(app, base_url=api_url, throttle=throttle, secrets=self.secrets, clock=clock)

    def auth(self, repository: str, /) -> Auth.Auth:
        """Return what authenticates as the App's installation on `repository` alone."""
        name = check_repository(repository).lower()
        with self._lock:
            if name not in self._minted:
                self._minted[name] = InstallationAuth(lambda: self._mint(repository), self._clock)
            return self._minted[name]

    def secrets(self) -> tuple[str, ...]:
        """Return the tokens that were handed out; the key is recognised by its form."""
        with self._lock:
            return tuple(auth.held for auth in self._minted.values() if auth.held)

    def _mint(self, repository: str) -> TokenReply:
        owner, name = repository.split("/")
        try:
            installation = self.api.get(
                path_of("repos", owner, name, "installation"), NumberedReply
            )
        except NotFound:
            raise NotFound(
                f"the GitHub App is not installed on {repository}",
                status=404,
                hint="install it there, with access to this repository",
            ) from None
        path = path_of("app/installations", str(installation.id), "access_tokens")
        body = {"repositories": [name], "permissions": dict(PERMISSIONS)}
        try:
            return self.api.repeat(lambda: self.api.send("POST", path, TokenReply, body))
        except Forbidden as error:
            if "suspended" not in error.message.lower():
                raise
            raise NotFound(
                f"the installation of the GitHub App on {repository} is suspended",
                status=error.status,
                hint="its owner suspended it, and may take that back in its settings",
            ) from None
        except Conflict as error:
            if _OTHER_NAME.search(error.message):
                raise NotFound(
                    f"the GitHub App's installation has no {repository}",
                    status=error.status,
                    hint="it was renamed or moved, or taken out of the installation",
                ) from None
            raise Forbidden(
                f"{error.message} (the App lacks a permission on {repository})",
                status=error.status,
                hint="give the App contents, pull requests, issues and checks: write, and accept "
                "that in the settings of its installation",
            ) from None


class InstallationAuth(Auth.Auth):
    """An installation's token for PyGithub, minted anew before it ends."""

    def __init__(self, mint: Callable[[], TokenReply], clock: Clock) -> None:
        """Ask `mint` for a token when one is needed."""
        self._mint = mint
        self._clock = clock
        self._lock = threading.Lock()
        self._reply: TokenReply | None = None

    @property
    def token_type(self) -> str:
        """Return the scheme of the Authorization header."""
        return "token"

    @property
    def token(self) -> str:
        """Return a token that is good for five minutes at least."""
        with self._lock:
            if self._reply is None or self._reply.is_spent(self._clock.now(), _FRESH_S):
                self._reply = self._mint()
            return self._reply.token

    @property
    def held(self) -> str | None:
        """Return the token that it has, good or not."""
        return self._reply.token if self._reply else None


def check_repository(full_name: str) -> str:
    """Return "owner/name" as given; raises `InvalidInput` for what GitHub calls no repository."""
    if not re.match(REPOSITORY, full_name):
        raise InvalidInput(f"not a repository: {full_name[:100]!r}", hint='"owner/name"')
    return full_name


def _app_from(environ: Mapping[str, str], api_url: str) -> AppCredentials:
    for name in ("FVEC_APP_ID", "FVEC_APP_PRIVATE_KEY_FILE"):
        if name not in environ:
            raise Missing(f"{name} is not set, and a GitHub App needs it", hint=_HOW)
    if not _APP_ID.fullmatch(environ["FVEC_APP_ID"]):
        raise InvalidInput("FVEC_APP_ID is no id of a GitHub App")
    key = _private_key(Path(environ["FVEC_APP_PRIVATE_KEY_FILE"]))
    return AppCredentials(environ["FVEC_APP_ID"], key, api_url=api_url)


def _private_key(path: Path) -> str:
    hint = "FVEC_APP_PRIVATE_KEY_FILE names the .pem file that GitHub generated for the App"
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_KEY_BYTES + 1)
    except OSError as error:
        told = f"the App's private key {path} cannot be read: {error.strerror}"
        raise Missing(told, hint=hint) from error
    if b"PRIVATE KEY" not in content or len(content) > _LARGEST_KEY_BYTES:
        raise InvalidInput("not a private key in PEM", at=Location(path), hint=hint)
    return content.decode("ascii", "replace")


def _login_from(environ: Mapping[str, str]) -> str | None:
    login = environ.get("FVEC_GITHUB_LOGIN")
    if login is not None and not re.match(LOGIN, login):
        raise InvalidInput("FVEC_GITHUB_LOGIN is no login", hint="`octocat`, or `my-app[bot]`")
    if login is None and environ.get("GITHUB_ACTIONS") == "true":
        return ACTIONS_LOGIN
    return login


def _signs(app: Auth.AppAuth) -> bool:
    try:
        return bool(app.token)
    except (PyJWTError, ValueError, TypeError):
        return False
