"""What GitHub refused, as errors for people."""

from datetime import UTC, datetime, timedelta

import pytest

from bot.github.errors import (
    Answer,
    Conflict,
    Forbidden,
    GitHubError,
    NotFound,
    RateLimited,
    Unauthorized,
    Unavailable,
    broken,
    refusal,
    unexpected,
)
from layers.errors import ToolFailed

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
PULLS = "/repos/owner/serve/pulls"


def refused(status: int, data: object = None, *, path: str = PULLS, **headers: str) -> GitHubError:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return refusal("POST", path, Answer(status, told, data), now=NOW)


@pytest.mark.parametrize(
    ("status", "kind", "hint"),
    [
        (401, Unauthorized, "the token is wrong, expired or revoked; of an App: key and clock"),
        (404, NotFound, "it does not exist, or the token may not see this repository"),
        (409, Conflict, "the message above is GitHub's; mend that and run again"),
        (422, Conflict, "the message above is GitHub's; mend that and run again"),
        (500, Unavailable, "GitHub is failing; see githubstatus.com and try again later"),
        (502, Unavailable, "GitHub is failing; see githubstatus.com and try again later"),
        (307, GitHubError, "the repository was renamed or moved: use its new name"),
        (418, GitHubError, "this is not an answer that fvec expects here"),
    ],
)
def test_each_status_is_its_own_error_with_a_hint(status, kind, hint) -> None:
    error = refused(status, {"message": "Told"})

    assert type(error) is kind
    assert isinstance(error, ToolFailed)
    assert (error.status, error.hint) == (status, hint)
    assert error.message == f"GitHub answered {status} to POST {PULLS}: Told"


def test_the_details_of_a_validation_error_are_told() -> None:
    errors = [
        {"resource": "PullRequest", "field": "head", "code": "invalid"},
        {"resource": "PullRequest", "code": "custom", "message": "No commits between a and b"},
        "plain text",
        {"message": "a fourth one is left out"},
    ]

    error = refused(422, {"message": "Validation Failed", "errors": errors})

    assert error.message == (
        f"GitHub answered 422 to POST {PULLS}: "
        "Validation Failed; head invalid; No commits between a and b; plain text"
    )


@pytest.mark.parametrize("data", [None, [], "text", 7, {"message": None}, {"errors": "text"}])
def test_an_answer_without_a_message_is_told_by_its_status(data: object) -> None:
    assert refused(404, data).message == f"GitHub answered 404 to POST {PULLS}"


@pytest.mark.parametrize(
    ("path", "needed"),
    [
        (PULLS, "pull requests: write"),
        ("/repos/owner/serve/check-runs", "checks: write"),
        (
            "/repos/owner/serve/issues/1/comments",
            "issues (of a pull request: pull requests): write",
        ),
        ("/repos/owner/serve/git/blobs", "contents: write"),
        ("/elsewhere", "the one for this: write"),
    ],
)
def test_a_missing_permission_is_named_by_what_was_asked(path: str, needed: str) -> None:
    error = refused(403, {"message": "Resource not accessible by integration"}, path=path)

    assert type(error) is Forbidden
    assert (
        error.hint == f"the token needs the permission {needed}; a branch rule may also refuse it"
    )


def test_a_missing_permission_is_named_as_github_names_it() -> None:
    error = refused(403, x_accepted_github_permissions="pull_requests=write; contents=read")

    assert error.hint == "the token needs the permission pull_requests=write; contents=read"


def test_a_hostile_header_is_no_hint() -> None:
    error = refused(403, x_accepted_github_permissions="<img src=x> @maintainer")

    assert error.hint == (
        "the token needs the permission pull requests: write; a branch rule may also refuse it"
    )


@pytest.mark.parametrize(
    ("status", "message", "headers", "wait_s", "kind"),
    [
        (403, "You have exceeded a secondary rate limit.", {}, 60, "secondary (too much at once)"),
        (403, "Slow down", {"retry_after": "7"}, 7, "secondary (too much at once)"),
        (429, "Too Many Requests", {}, 60, "secondary (too much at once)"),
        (429, "Too Many Requests", {"retry_after": "0"}, 0, "secondary (too much at once)"),
        (429, "Too Many Requests", {"retry_after": "-5"}, 60, "secondary (too much at once)"),
        (
            429,
            "Too Many Requests",
            {"retry_after": "9" * 400},
            86_400,
            "secondary (too much at once)",
        ),
        (403, "API rate limit exceeded", {"x_ratelimit_remaining": "0"}, 60, "hourly"),
    ],
)
def test_a_rate_limit_says_which_and_when_to_go_on(status, message, headers, wait_s, kind) -> None:
    error = refused(status, {"message": message}, **headers)

    assert isinstance(error, RateLimited)
    assert error.retry_at == NOW + timedelta(seconds=wait_s)
    assert error.message.endswith(f"{message} [{kind} rate limit]")


def test_the_hourly_limit_ends_after_the_second_that_github_names() -> None:
    reset = str(int(NOW.timestamp()) + 600)

    error = refused(403, x_ratelimit_remaining="0", x_ratelimit_reset=reset)

    assert isinstance(error, RateLimited)
    assert error.retry_at == NOW + timedelta(seconds=601)
    assert error.hint == "goes on at 05:16:08 UTC by itself where it runs as a service"


def test_a_reset_in_the_past_is_no_wait() -> None:
    error = refused(403, x_ratelimit_remaining="0", x_ratelimit_reset="1")

    assert isinstance(error, RateLimited)
    assert error.retry_at == NOW


def test_a_message_is_one_bounded_line() -> None:
    error = refused(422, {"message": "first\nsecond \x1b[31m" + "x" * 5000})

    assert error.message.startswith(f"GitHub answered 422 to POST {PULLS}: first second [31mxxx")
    assert len(error.message) < 400


def test_a_secret_in_an_answer_does_not_come_out() -> None:
    known = "known-" + "secret-" * 3
    formed = "ghs" + "_" + "A1" * 18
    answer = Answer(422, {}, {"message": f"bad {known} and {formed}"})

    error = refusal("POST", f"{PULLS}/{known}", answer, now=NOW, secrets=(known,))

    assert known not in str(error)
    assert formed not in str(error)
    assert "bad" in error.message


def test_a_broken_request_says_what_happened() -> None:
    error = broken("POST", PULLS, "no answer within 30 s")

    assert type(error) is Unavailable
    assert (error.status, error.message) == (0, f"POST {PULLS}: no answer within 30 s")


def test_an_unexpected_answer_names_the_fields_alone() -> None:
    error = unexpected("GET", PULLS, "head.sha")

    assert error.message == (f"the answer to GET {PULLS} is not as GitHub describes it: head.sha")
