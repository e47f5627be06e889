"""One request to a service that speaks the Messages API, through the `anthropic` package.

The body of a reply is read here and not by the package: so that one limit holds for the whole reply
and not for each piece of it, and so that half a reply is told from a whole one. A client lives for
one request: none is left open, whoever stops using it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

import anthropic
import httpx
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential_jitter,
)

from layers.agent_settings import LOOPBACK
from layers.agents.replies import Failed, Streamed, Whole, error_text
from layers.story import Outcome

MOST_WAIT_S = 60.0  # whatever the service asks for
CONNECT_S = 30.0
_BACK_OFF = wait_exponential_jitter(initial=0.5, max=30.0, jitter=0.5)
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

    `timeout_s` is for the whole of it, looked at with each piece, and for each silence.
    """
    ends = time.monotonic() + timeout_s
    try:
        with _client(address, key) as client:
            ask: Any = client.messages.with_streaming_response.create
            with ask(**request, timeout=_timeout(timeout_s)) as response:
                for chunk in response.iter_bytes():
                    reply.feed(chunk)
                    if reply.done:
                        break
                    if time.monotonic() > ends:
                        raise _too_slow(timeout_s)
    except anthropic.APIStatusError as error:
        failed = _refused(error)
    except anthropic.APIConnectionError as error:
        failed = _unanswered(error.__cause__, timeout_s)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        failed = _unanswered(error, timeout_s)
    except anthropic.AnthropicError as error:
        failed = Failed(f"the service cannot be asked: {_kind(error)}", again=False)
    else:
        return
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


def _client(address: str, key: str) -> anthropic.Anthropic:
    """Return a client that gives this key, and no other credential, to this address alone."""
    if urlsplit(address).hostname in LOOPBACK:
        http = httpx.Client(follow_redirects=False, trust_env=False)  # by no proxy
    else:
        http = anthropic.DefaultHttpxClient(follow_redirects=False)
    client = anthropic.Anthropic(api_key=key, base_url=address, max_retries=0, http_client=http)
    client.auth_token = None  # of the environment: for another service, as far as we know
    return client


def _timeout(timeout_s: float) -> httpx.Timeout:
    return httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_S))


def _refused(error: anthropic.APIStatusError) -> Failed:
    """Return what an answer means that is no success."""
    status, headers = error.status_code, error.response.headers
    kind, said = error_text(error.body)
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


def _unanswered(cause: BaseException | None, timeout_s: float) -> Failed:
    """Return what it means that the network brought no answer, or half of one.

    Only the kind of error is told: the text of some of them quotes headers.
    """
    if isinstance(cause, _UNSENT):
        return Failed(f"the service cannot be reached: {_kind(cause)}", billed=False)
    if isinstance(cause, _WRONG):
        return Failed(f"the request cannot be sent: {_kind(cause)}", again=False, billed=False)
    if isinstance(cause, httpx.TimeoutException):
        return _too_slow(timeout_s)
    return Failed(f"the connection broke before the reply was there: {_kind(cause)}")


def _too_slow(timeout_s: float) -> Failed:
    return Failed(f"no reply within {timeout_s:g} s")


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
