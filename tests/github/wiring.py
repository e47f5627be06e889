"""PyGithub that believes it talks to api.github.com, wired to the fake in process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from github.Requester import (
    HTTPRequestsConnectionClass,
    HTTPSRequestsConnectionClass,
    Requester,
    RequestsResponse,
)

from tests.github.fake_github import FakeGitHub
from tests.github.faults import Exchange
from tests.github.server import REQUEST_ID

HOST = "api.github.com"


class _Refusing(HTTPRequestsConnectionClass):
    """No test means to talk plain HTTP to anybody."""

    def __init__(self, host: str, *_: Any, **__: Any) -> None:
        raise AssertionError(f"plain HTTP to {host}")


@contextmanager
def connected(
    fake: FakeGitHub, *, after: Callable[[Exchange], None] | None = None
) -> Iterator[None]:
    """Point PyGithub's transport at `fake`; any other host than api.github.com is an error.

    `after` is called in the client's thread with each exchange that got a reply: what it raises
    ends the client's work right there.
    """

    class Loopback(HTTPSRequestsConnectionClass):
        def __init__(self, host: str, port: int | None = None, **options: Any) -> None:
            if host != HOST or port not in (None, 443):
                raise AssertionError(f"a request to {host}:{port}")
            super().__init__(host, port, **options)
            self.protocol, self.host = "http", "127.0.0.1"
            self.port = urlsplit(fake.url).port or 0
            self.session.trust_env = False  # no proxy between a test and loopback
            self.session.mount("http://", self.adapter)

        def request(
            self, verb: str, url: str, input: Any, headers: dict[str, Any], *more: Any
        ) -> None:
            super().request(verb, url, input, {**headers, "Host": HOST}, *more)

        def getresponse(self) -> RequestsResponse:
            response = super().getresponse()
            if after is not None:
                after(fake.requests[int(response.headers[REQUEST_ID])])
            return response

    Requester.injectConnectionClasses(_Refusing, Loopback)
    try:
        yield
    finally:
        Requester.resetConnectionClasses()
