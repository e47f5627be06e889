"""Requests to GitHub's REST API: the one place for time-outs, waiting, repeating and errors.

PyGithub does the work below: authentication, throttling, connections. Its objects are not used:
they load lazily, so that an error comes late and requests are made that nobody sees; and what
GitHub answers is checked here, field by field, rather than believed. Its retry is off: it repeats
a POST on 5xx without looking whether the first one was done, or, limited to GET, leaves a write
that met a rate limit to nobody.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

from github import Auth, Github, GithubException
from pydantic import BaseModel, ValidationError
from requests.exceptions import RequestException, SSLError, Timeout

from bot.github.errors import (
    Answer,
    GitHubError,
    NotFound,
    RateLimited,
    Unavailable,
    broken,
    refusal,
    unexpected,
)
from layers.errors import InvalidInput

DEFAULT_API_URL = "https://api.github.com"
MOST_ATTEMPTS = 3
LONGEST_WAIT_S = 60.0  # a limit that lasts longer is an error that says when to come back
PER_PAGE = 100
MOST_PAGES = 100
_TIMEOUT_S = 30
_LARGEST_ANSWER = 64 * 2**20
_SECONDS_BETWEEN_REQUESTS = 0.25
_SECONDS_BETWEEN_WRITES = 1.0  # GitHub's advice against its secondary limits
_HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
_LOOPBACK = {"127.0.0.1", "localhost"}
_NEXT = re.compile(r'<([^<>]*)>; rel="next"')

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)
Parameters = Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class Clock:
    """The time (UTC), and how to let it pass."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    sleep: Callable[[float], None] = time.sleep


CLOCK = Clock()


def _nothing() -> None:
    """Look for nothing: of what may be done twice without harm."""


class Api:
    """Requests with one authentication.

    Every method raises `GitHubError` or one of its subclasses. Reads are repeated after 5xx and
    broken connections; both reads and writes wait for a rate limit of at most a minute. At most
    three attempts in all.
    """

    def __init__(
        self,
        auth: Auth.Auth,
        *,
        base_url: str = DEFAULT_API_URL,
        throttle: bool = True,
        secrets: Callable[[], tuple[str, ...]] = lambda: (),
        clock: Clock = CLOCK,
    ) -> None:
        """Connect to `base_url` when it is first asked; `secrets` never come out in a message."""
        # At DEBUG it logs whole answers, the one that holds a new token among them.
        logging.getLogger("github.Requester").setLevel(logging.INFO)
        self._requester = Github(
            auth=auth,
            base_url=check_api_url(base_url),
            timeout=_TIMEOUT_S,
            user_agent="fvec",
            retry=None,
            seconds_between_requests=_SECONDS_BETWEEN_REQUESTS if throttle else None,
            seconds_between_writes=_SECONDS_BETWEEN_WRITES if throttle else None,
        ).requester
        self._secrets = secrets
        self._clock = clock

    def get(self, path: str, model: type[Model], parameters: Parameters | None = None) -> Model:
        """Return what is at `path`; raises `NotFound` where nothing is."""
        answer = self.repeat(lambda: self._once("GET", path, parameters))
        return _read(model, answer.data, "GET", path)

    def find(
        self, path: str, model: type[Model], parameters: Parameters | None = None
    ) -> Model | None:
        """Return what is at `path`, or None where nothing is."""
        try:
            return self.get(path, model, parameters)
        except NotFound:
            return None

    def pages(
        self,
        path: str,
        model: type[Model],
        parameters: Parameters | None = None,
        *,
        key: str | None = None,
    ) -> Iterator[Model]:
        """Yield the items of a list, all of them; under `key` where the list lies in an object.

        Raises `GitHubError` after 10,000 items: a list that long is not worked through.
        """
        first: Parameters = {**(parameters or {}), "per_page": PER_PAGE}
        asked = first
        for _ in range(MOST_PAGES):
            answer = self.repeat(partial(self._once, "GET", path, asked))
            for item in _items(answer.data, key, path):
                yield _read(model, item, "GET", path)
            if (place := _next_page(answer.headers.get("link", ""), path)) is None:
                return
            asked = {**first, **place}
        raise GitHubError(f"GET {path} lists more than {MOST_PAGES * PER_PAGE:,} entries")

    def send(self, method: str, path: str, model: type[Model], body: object) -> Model:
        """Write once, and return the answer; not repeated here: see `repeat`."""
        return _read(model, self._once(method, path, body=body).data, method, path)

    def do(self, method: str, path: str, body: object = None) -> None:
        """Write what may be done twice without harm, whose answer tells nothing."""
        self.repeat(lambda: self._once(method, path, body=body))

    def repeat(self, attempt: Callable[[], T], look: Callable[[], T | None] = _nothing) -> T:
        """Return what `attempt` does, at most three times.

        After a 5xx or a broken connection it may have been done: `look` says what is there now,
        and only None lets it be tried again.
        """
        failures = 0
        while True:
            try:
                return attempt()
            except RateLimited as error:
                failures += 1
                self._wait_for(error, failures)
            except Unavailable:
                failures += 1
                self._clock.sleep(2.0 ** (failures - 1))
                if (found := look()) is not None:
                    return found
                if failures == MOST_ATTEMPTS:
                    raise

    def _wait_for(self, limit: RateLimited, failures: int) -> None:
        wait_s = (limit.retry_at - self._clock.now()).total_seconds()
        if failures == MOST_ATTEMPTS or wait_s > LONGEST_WAIT_S:
            raise limit
        self._clock.sleep(max(wait_s, 0.0))

    def _once(
        self, method: str, path: str, parameters: Parameters | None = None, body: object = None
    ) -> Answer:
        """Make one request; raises for every answer but 2xx."""
        answer = self._transmit(method, path, parameters, body)
        # Raised here, out of reach of what was caught: that holds the request and its headers.
        if isinstance(answer, GitHubError):
            raise answer
        if not 200 <= answer.status < 300:
            now = self._clock.now()
            raise refusal(method, path, answer, now=now, secrets=self._secrets())
        return answer

    def _transmit(
        self, method: str, path: str, parameters: Parameters | None, body: object
    ) -> Answer | GitHubError:
        try:
            status, headers, text = self._requester.requestJson(
                method, path, parameters=dict(parameters or {}), headers=dict(_HEADERS), input=body
            )
        except RequestException as error:
            return broken(method, path, _what_broke(error))
        except GithubException as error:
            headers = {k.lower(): str(v) for k, v in (error.headers or {}).items()}
            return Answer(error.status, headers, error.data)
        except RuntimeError as error:
            if type(error) not in (RuntimeError, RecursionError):  # PyGithub raises no other
                raise
            return unexpected(method, path, "it was sent on to another host")
        return _parsed(method, path, status, headers, text)


def check_api_url(url: str) -> str:
    """Return the address of the API if it is https, or http on this machine; else `InvalidInput`."""
    parts = urlsplit(url)
    safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    if not safe or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidInput(
            "not an address of GitHub's API that credentials are sent to",
            hint=f"an https address such as {DEFAULT_API_URL}; http on this machine alone",
        )
    return url.rstrip("/")


def path_of(*parts: str) -> str:
    """Return a path of the API; a part may have slashes.

    Raises `InvalidInput` for a part that would leave its place, empty or with dots alone, and for
    what cannot be printed.
    """
    whole = "/".join(parts)
    segments = whole.split("/")
    if not whole.isprintable() or any(segment in {"", ".", ".."} for segment in segments):
        raise InvalidInput(f"not a name that GitHub knows: {whole[:200]!r}")
    return "".join(f"/{quote(segment, safe='')}" for segment in segments)


def _parsed(
    method: str, path: str, status: int, headers: Mapping[str, str], text: str
) -> Answer | GitHubError:
    if len(text) > _LARGEST_ANSWER:
        return unexpected(method, path, f"it has more than {_LARGEST_ANSWER:,} characters")
    try:
        return Answer(status, headers, json.loads(text) if text else None)
    except (ValueError, RecursionError):
        if status >= 300:
            return Answer(status, headers, None)  # the page of a proxy or load balancer
        return broken(method, path, "the answer is cut off or not JSON")


def _what_broke(error: RequestException) -> str:
    if isinstance(error, Timeout):
        return f"no answer within {_TIMEOUT_S} s"
    if isinstance(error, SSLError):
        return "the certificate of the other side is not accepted"
    return f"the connection broke ({type(error).__name__})"


def _items(data: object, key: str | None, path: str) -> list[object]:
    items = data.get(key) if key is not None and isinstance(data, dict) else data
    if not isinstance(items, list):
        raise unexpected("GET", path, "it is no list")
    return items


def _next_page(link: str, path: str) -> dict[str, str] | None:
    """Return where the next page is, as parameters; the address in the header is not followed."""
    if (found := _NEXT.search(link)) is None:
        return None
    asked = dict(parse_qsl(urlsplit(found[1]).query))
    place = {name: value for name, value in asked.items() if name in {"page", "cursor"}}
    if not place:
        raise unexpected("GET", path, "its next page has no place")
    return place


def _read(model: type[Model], data: object, method: str, path: str) -> Model:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        wrong = [".".join(map(str, each["loc"])) or "all of it" for each in error.errors()[:5]]
        failure = unexpected(method, path, ", ".join(wrong))
    raise failure
