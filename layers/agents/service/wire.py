"""One request to a service that speaks the Messages API, through the `anthropic` package.

The body of a reply is read here and not by the package: so that one limit holds for the whole reply
and not for each piece of it, and so that half a reply is told from a whole one. A client lives for
one request: none is left open, whoever stops using it.
"""

from __future__ import annotations

import json
import math
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import anthropic
import httpx
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from layers.agent_settings import LOOPBACK
from layers.agents.service.replies import Failed, Streamed, Whole, error_text
from layers.story import Outcome

MOST_WAIT_S = 60.0  # whatever the service asks for
CONNECT_S = 30.0
MOST_ERROR_BYTES = 64 * 1024  # that are read of an answer that is no success
_BACK_OFF = wait_exponential(multiplier=0.5, max=30.0) + wait_random(0.0, 0.5)
_PASSING = frozenset({408, 409, 429})  # and all from 500
# A gateway gave up, while the model may have gone on: what it wrote may be billed.
_GAVE_UP = frozenset({408, 502, 504, 520, 522, 524})
_ABOUT_ACCESS = frozenset({401, 403, 404})
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
_WRONG = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL)
_T = TypeVar("_T")


def send(
    request: Mapping[str, Any], address: str, key: str, timeout_s: float, reply: Whole | Streamed
) -> None:
    """Ask once and feed the answer to `reply`; raises Failed where none comes.

    `timeout_s` is for the whole of it, from the first connection to the last piece.
    """
    deadline = _Deadline(timeout_s)
    try:
        with deadline, _client(address, key, deadline) as client:
            ask: Any = client.messages.with_streaming_response.create
            with ask(**request, timeout=_timeout(timeout_s)) as response:
                for chunk in response.iter_bytes():
                    reply.feed(chunk)
                    if reply.done or deadline.passed:
                        break
    except anthropic.APIConnectionError as error:
        failed = _unanswered(error.__cause__, deadline)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        failed = _unanswered(error, deadline)
    except anthropic.AnthropicError as error:
        failed = Failed(f"the service cannot be asked: {_kind(error)}", again=False)
    else:
        if reply.done or not deadline.passed:
            return
        failed = _too_slow(deadline)
    raise failed  # here, so that it carries no error along that holds the request and its key


def persistent(ask: Callable[[], _T], tries: int, sleep: Callable[[float], None]) -> _T:
    """Ask until there is an answer, `tries` times at most; raises what the last try raised."""
    retrying = Retrying(
        stop=stop_after_attempt(tries),
        wait=_wait,
        retry=retry_if_exception(lambda error: isinstance(error, Failed) and error.again),
        sleep=sleep,
        reraise=True,
    )
    return retrying(ask)


class _Deadline:
    """Ends the connection of one try once its time is up, whatever is waited for then.

    The time-outs of httpx are for each silence: headers that come byte by byte, or answers that
    announce another answer, would never reach one.
    """

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self.passed = False
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(timeout_s, self._end)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        self._timer.join()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Take note of the newest connection: of TCP, then of TLS over it."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            with self._lock:
                self._socket = info["return_value"].get_extra_info("socket")
                if self.passed:
                    self._shut()

    def _end(self) -> None:
        with self._lock:
            self.passed = True
            self._shut()

    def _shut(self) -> None:
        """Let whoever reads or writes find the end of the connection; to close it is theirs."""
        if self._socket is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # below TLS, too


def _client(address: str, key: str, deadline: _Deadline) -> anthropic.Anthropic:
    """Return a client that gives this key, and no other credential, to this address alone."""

    def watched(request: httpx.Request) -> None:
        request.extensions["trace"] = deadline.trace
        request.headers["Accept-Encoding"] = "identity"  # little cannot become much

    http: httpx.Client
    hooks: dict[str, list[Callable[..., Any]]] = {"request": [watched], "response": [_held]}
    if urlsplit(address).hostname in LOOPBACK:  # by no proxy
        http = httpx.Client(follow_redirects=False, trust_env=False, event_hooks=hooks)
    else:
        http = anthropic.DefaultHttpxClient(follow_redirects=False, event_hooks=hooks)
    client = anthropic.Anthropic(api_key=key, base_url=address, max_retries=0, http_client=http)
    client.auth_token = None  # of the environment: for another service, as far as we know
    return client


def _timeout(timeout_s: float) -> httpx.Timeout:
    return httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_S))


def _held(response: httpx.Response) -> None:
    """Raise Failed for an answer that is no success, before the package reads all of it."""
    if not 200 <= response.status_code < 300:
        raise _refused(response.status_code, response.headers, _beginning(response))
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise Failed("the reply is compressed, which was not asked for", Outcome.MALFORMED)


def _beginning(response: httpx.Response) -> object:
    """Return how the body of an answer begins: as JSON where it is that, else as text."""
    body = bytearray()
    with suppress(httpx.HTTPError):  # it broke off, or was too slow: the status is known
        for chunk in response.iter_raw():
            body += chunk
            if len(body) >= MOST_ERROR_BYTES:
                break
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body[:MOST_ERROR_BYTES].decode("utf-8", "replace")


def _refused(status: int, headers: httpx.Headers, body: object) -> Failed:
    """Return what an answer means that is no success."""
    kind, said = error_text(body)
    again = status in _PASSING or status >= 500
    advice = headers.get("x-should-retry")
    if advice in ("true", "false"):
        again = advice == "true"
    access = status in _ABOUT_ACCESS or status < 400
    return Failed(
        f"the service answered {status}: {kind}: {said}",
        Outcome.UNREACHABLE if again or access or status >= 500 else Outcome.REFUSED,
        again=again,
        billed=status in _GAVE_UP,
        after_s=_after(headers),
    )


def _unanswered(cause: BaseException | None, deadline: _Deadline) -> Failed:
    """Return what it means that the network brought no answer, or half of one.

    Only the kind of error is told: the text of some of them quotes headers.
    """
    if isinstance(cause, Failed):
        return cause
    if isinstance(cause, _UNSENT):
        return Failed(f"the service cannot be reached: {_kind(cause)}", billed=False)
    if isinstance(cause, _WRONG):
        return Failed(f"the request cannot be sent: {_kind(cause)}", again=False, billed=False)
    if deadline.passed or isinstance(cause, httpx.TimeoutException):
        return _too_slow(deadline)
    return Failed(f"the connection broke before the reply was there: {_kind(cause)}")


def _too_slow(deadline: _Deadline) -> Failed:
    return Failed(f"no reply within {deadline.timeout_s:g} s")


def _kind(cause: BaseException | None) -> str:
    return type(cause).__name__


def _wait(state: RetryCallState) -> float:
    """Return how long to wait: what the service asks for, within bounds, or longer each time."""
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, Failed) and error.after_s is not None:
        return min(error.after_s, MOST_WAIT_S)
    return _BACK_OFF(state)


def _after(headers: httpx.Headers) -> float | None:
    """Return how many seconds the service asks to wait; None where it does not, or not clearly."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    try:
        then = parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, OverflowError):
        return None
    if then.tzinfo is None:  # as "-0000" is read
        then = then.replace(tzinfo=UTC)
    return max(0.0, (then - datetime.now(UTC)).total_seconds())
