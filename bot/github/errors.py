"""What GitHub refused or failed to do, as errors that a person can act on.

GitHubError             no answer, or one that is not as GitHub describes it
+-- Unavailable         5xx, a broken connection, a time-out: it may have been done all the same
+-- Unauthorized        401
+-- Forbidden           403: a permission is missing; the hint names it
|   +-- Locked          the conversation is locked: not even an App can write to it
+-- NotFound            404: not there, or not to be seen with this token
+-- Conflict            409, 422: GitHub does not take it as things stand
+-- RateLimited         403 or 429: too many requests; `retry_at` says when to go on
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from bot.render.text import one_line
from layers.errors import ToolFailed
from layers.redact import redact

_LONGEST_MESSAGE = 300
_SECONDARY_WAIT_S = 60.0  # GitHub's advice where a secondary limit names no time
_LONGEST_LIMIT_S = 86_400.0  # a header that asks for more is not believed
_DETAILS = 3
_ACCEPTED = re.compile(r"[a-z_]+=[a-z]+(?:[,;] ?[a-z_]+=[a-z]+)*")
_LOCKED = re.compile(r"\b(?:issue|conversation|pull request)\b[^.]{0,60}\blocked\b", re.IGNORECASE)

# The permission of a GitHub App or fine-grained token that a path needs, by what it contains.
_NEEDED = (
    ("/check-runs", "checks"),
    ("/pulls", "pull requests"),
    ("/issues", "issues (of a pull request: pull requests)"),
    ("/git/", "contents"),
    ("/contents/", "contents"),
    ("/collaborators/", "metadata"),
)


class GitHubError(ToolFailed):
    """GitHub did not do what it was asked for; `status` is its HTTP status, 0 without an answer."""

    def __init__(self, message: str, *, status: int = 0, hint: str | None = None) -> None:
        """Keep the status beside message and hint."""
        super().__init__(message, hint=hint)
        self.status = status


class Unavailable(GitHubError):
    """No answer, or one that says GitHub itself broke: what was asked may have been done."""


class Unauthorized(GitHubError):
    """The credentials are not accepted."""


class Forbidden(GitHubError):
    """The credentials lack a permission; the hint names it."""


class Locked(Forbidden):
    """The conversation is locked: nothing is said or reacted to there, whatever the permissions."""


class NotFound(GitHubError):
    """It does not exist, or these credentials may not see it."""


class Conflict(GitHubError):
    """GitHub does not take the request as things stand there."""


class RateLimited(GitHubError):
    """Too many requests; nothing was done, and nothing will be before `retry_at` (UTC)."""

    def __init__(self, message: str, *, status: int, retry_at: datetime) -> None:
        """Keep when to go on."""
        hint = f"goes on at {retry_at:%H:%M:%S} UTC by itself where it runs as a service"
        super().__init__(message, status=status, hint=hint)
        self.retry_at = retry_at


TRANSIENT = (RateLimited, Unavailable)  # worth another attempt: whoever keeps the queue decides


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of GitHub: headers by their lower-case names, `data` the JSON in the body."""

    status: int
    headers: Mapping[str, str]
    data: object


def refusal(
    method: str, path: str, answer: Answer, *, now: datetime, secrets: tuple[str, ...] = ()
) -> GitHubError:
    """Return the error that an answer with a status from 300 on means.

    GitHub's own message is part of it, without secrets and cut to 300 characters.
    """
    status = answer.status
    asked = request_line(method, path, secrets)
    told = one_line(redact(_message(answer.data), secrets), _LONGEST_MESSAGE)
    message = f"GitHub answered {status} to {asked}" + (f": {told}" if told else "")
    if _is_rate_limit(answer):
        kind = "hourly" if _is_primary(answer) else "secondary (too much at once)"
        retry_at = _retry_at(answer, now)
        return RateLimited(f"{message} [{kind} rate limit]", status=status, retry_at=retry_at)
    if status >= 500:
        hint = "GitHub is failing; see githubstatus.com and try again later"
        return Unavailable(message, status=status, hint=hint)
    return _by_status(message, method, path, answer)


def broken(method: str, path: str, what: str) -> Unavailable:
    """Return the error for a request that got no usable answer; `what` happened instead."""
    return Unavailable(
        f"{request_line(method, path)}: {what}",
        hint="is api.github.com reachable from here (network, proxy)? what was asked may be done",
    )


def unexpected(method: str, path: str, fields: str) -> GitHubError:
    """Return the error for an answer whose `fields` are not as GitHub describes them."""
    return GitHubError(
        f"the answer to {request_line(method, path)} is not as GitHub describes it: {fields}",
        hint="a proxy between here and GitHub may have answered, or its API has changed",
    )


def request_line(method: str, path: str, secrets: tuple[str, ...] = ()) -> str:
    """Return how a message calls a request."""
    return f"{method} {one_line(redact(path, secrets), 200)}"


def _by_status(message: str, method: str, path: str, answer: Answer) -> GitHubError:
    status = answer.status
    kind, hint = GitHubError, "this is not an answer that fvec expects here"
    if status < 400:
        hint = "the repository was renamed or moved: use its new name"
    elif status == 401:
        kind, hint = (
            Unauthorized,
            "the token is wrong, expired or revoked; of an App: key and clock",
        )
    elif status == 403 and _LOCKED.search(_message(answer.data)):
        kind, hint = Locked, "unlock the conversation, or look at the check run instead"
    elif status == 403:
        kind, hint = Forbidden, _permission_hint(method, path, answer)
    elif status == 404:
        kind, hint = NotFound, "it does not exist, or the token may not see this repository"
    elif status in {409, 422}:
        kind, hint = Conflict, "the message above is GitHub's; mend that and run again"
    return kind(message, status=status, hint=hint)


def _permission_hint(method: str, path: str, answer: Answer) -> str:
    accepted = answer.headers.get("x-accepted-github-permissions", "")
    if len(accepted) <= 200 and _ACCEPTED.fullmatch(accepted):
        return f"the token needs the permission {accepted}"
    level = "read" if method == "GET" else "write"
    needed = next((name for part, name in _NEEDED if part in path), "the one for this")
    return f"the token needs the permission {needed}: {level}; a branch rule may also refuse it"


def _message(data: object) -> str:
    """Return GitHub's message with the details of a validation error."""
    if not isinstance(data, dict):
        return ""
    told = str(data.get("message") or "")[:2000]
    errors = data.get("errors")
    details = [_detail(error) for error in errors[:_DETAILS]] if isinstance(errors, list) else []
    return "; ".join(part for part in (told, *details) if part)


def _detail(error: object) -> str:
    if not isinstance(error, dict):
        return str(error)[:1000]
    told = error.get("message") or " ".join(str(error.get(name, "")) for name in ("field", "code"))
    return str(told)[:1000].strip()


def _is_rate_limit(answer: Answer) -> bool:
    if answer.status == 429:
        return True
    told = _message(answer.data).lower()
    limited = "retry-after" in answer.headers or "rate limit" in told or "abuse detection" in told
    return answer.status == 403 and (limited or _is_primary(answer))


def _is_primary(answer: Answer) -> bool:
    return answer.headers.get("x-ratelimit-remaining") == "0"


def _retry_at(answer: Answer, now: datetime) -> datetime:
    after = answer.headers.get("retry-after", "")
    reset = answer.headers.get("x-ratelimit-reset", "")
    wait_s = _SECONDARY_WAIT_S
    if after.isascii() and after.isdigit():
        wait_s = _bounded(after)
    elif _is_primary(answer) and reset.isascii() and reset.isdigit():
        # It is not said when in that second the limit ends.
        wait_s = _bounded(reset) - now.timestamp() + 1.0
    wait_s = min(max(wait_s, 0.0), _LONGEST_LIMIT_S)
    return now.astimezone(UTC) + timedelta(seconds=wait_s)


def _bounded(digits: str) -> float:
    """Return a count of seconds; a number of many digits would overflow what it is added to."""
    return float(digits[:12])
