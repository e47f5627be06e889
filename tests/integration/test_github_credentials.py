"""Credentials at work, and every operation as GitHub's own description has it.

The last test believes that it talks to api.github.com; its exchanges are checked at teardown.
"""

from datetime import timedelta

import pytest

from bot.github.auth import PERMISSIONS, AppCredentials, TokenCredentials
from bot.github.client import Conflict, Forbidden, GitHubError, NotFound, connect
from layers.errors import InvalidInput, Missing
from tests.github.fake_github import FakeGitHub
from tests.github_bot import BRANCH, KEY, SAID, log, opened
from tests.passing_time import PassingTime

pytest_plugins = ["tests.github.fixtures", "tests.github_bot_fixtures"]

# Credentials at work


def test_whose_token_it_is_is_asked_where_nobody_says(
    fake: FakeGitHub, passing: PassingTime
) -> None:
    token = fake.user("somebody", "write")
    client = connect(TokenCredentials(token, api_url=fake.url), throttle=False, clock=passing.clock)

    assert (client.login, client.login) == ("somebody", "somebody")
    assert client.repository(fake.full_name).login == "somebody"
    assert client.app is None
    assert [request.path for request in fake.requests] == ["/user"]


def test_an_installation_token_needs_its_login_told(fake: FakeGitHub, passing: PassingTime) -> None:
    client = connect(TokenCredentials(fake.token, api_url=fake.url), clock=passing.clock)

    with pytest.raises(Missing, match="does not say whose token this is") as caught:
        client.repository(fake.full_name)

    assert caught.value.hint is not None
    assert "FVEC_GITHUB_LOGIN" in caught.value.hint


def test_a_wrong_token_is_told(fake: FakeGitHub, passing: PassingTime) -> None:
    repository = opened(fake, passing, token="not-a-" + "token")

    with pytest.raises(GitHubError, match="GitHub answered 401") as caught:
        repository.default_branch()

    assert caught.value.status == 401
    assert "not-a-" not in str(caught.value)


def _app(fake: FakeGitHub, passing: PassingTime) -> AppCredentials:
    return AppCredentials(
        str(fake.app.id),
        fake.app.private_key,
        api_url=fake.url,
        throttle=False,
        clock=passing.clock,
    )


def test_an_app_works_with_a_token_for_one_repository(fake, passing, number: int) -> None:
    credentials = _app(fake, passing)
    client = connect(credentials, throttle=False, clock=passing.clock)

    repository = client.repository(fake.full_name)
    repository.sticky_comment(number, KEY, "accepted")

    assert client.login == repository.login == "fvec[bot]"
    assert fake.comments(number)[0]["user"]["login"] == "fvec[bot]"
    (minted,) = [r for r in fake.requests if r.path.endswith("/access_tokens")]
    assert minted.body == {"repositories": ["serve"], "permissions": dict(PERMISSIONS)}
    assert credentials.secrets() == (credentials.token(fake.full_name),)
    assert credentials.secrets() == (minted.reply["token"],)


def test_an_app_renews_its_token(fake: FakeGitHub, passing: PassingTime) -> None:
    credentials = _app(fake, passing)
    repository = connect(credentials, throttle=False, clock=passing.clock).repository(
        fake.full_name
    )
    tokens = set()
    for _ in range(5):
        assert repository.default_branch() == "main"
        tokens.add(credentials.token(fake.full_name))
        passing.now += timedelta(minutes=30)

    assert len(tokens) == 3
    assert [r.status for r in fake.requests if r.path == f"/repos/{fake.full_name}"] == [200] * 5


def test_an_app_that_is_not_installed_is_told(fake: FakeGitHub, passing: PassingTime) -> None:
    client = connect(_app(fake, passing), throttle=False, clock=passing.clock)

    with pytest.raises(NotFound, match="the GitHub App is not installed on other/place"):
        client.repository("other/place").default_branch()


def test_an_app_without_a_permission_is_told(fake: FakeGitHub, passing: PassingTime) -> None:
    client = connect(_app(fake, passing), throttle=False, clock=passing.clock)
    fake.faults.add("422", "POST", "*/access_tokens")

    with pytest.raises(Forbidden, match="the App lacks a permission on owner/serve"):
        client.repository(fake.full_name).default_branch()


def test_a_token_is_minted_again_where_github_broke(fake: FakeGitHub, passing: PassingTime) -> None:
    client = connect(_app(fake, passing), throttle=False, clock=passing.clock)
    fake.faults.add("502", "POST", "*/access_tokens")

    assert client.repository(fake.full_name).default_branch() == "main"


def test_a_repository_is_named_in_full(fake: FakeGitHub, passing: PassingTime) -> None:
    client = connect(TokenCredentials(fake.token, login=fake.login, api_url=fake.url))

    with pytest.raises(InvalidInput, match="not a repository"):
        client.repository("owner/serve/../../user")
    assert fake.requests == []


# Everything once more, as api.github.com


def test_every_exchange_is_as_github_describes_it(wired, passing, number, head) -> None:
    credentials = AppCredentials(
        str(wired.app.id), wired.app.private_key, throttle=False, clock=passing.clock
    )
    repository = connect(credentials, throttle=False, clock=passing.clock).repository(
        wired.full_name
    )
    comment = wired.comment(number, "/fvec rerun")

    assert repository.default_branch() == "main"
    assert repository.branch_sha("main") == wired.sha("main")
    assert repository.branch_sha("none") is None
    assert repository.file("README.md", "main") == b"# Serving\n"
    assert repository.file("none", "main") is None
    assert set(repository.read_tree("main")) == {"README.md"}
    assert repository.permission("maintainer") == "maintain"
    assert repository.permission("stranger-9") == "none"
    pull = repository.create_pull(BRANCH, "main", "A title", "A body", draft=True)
    repository.update_pull(pull.number, title="Another", body="Other")
    assert [p.number for p in repository.open_pulls()] == [pull.number]
    repository.add_labels(pull.number, ["fvec", "fvec:stale"])
    repository.remove_label(pull.number, "fvec:stale")
    repository.remove_label(pull.number, "fvec:stale")
    repository.sticky_comment(pull.number, KEY, "accepted")
    repository.sticky_comment(pull.number, KEY, "rejected")
    repository.react(comment, "eyes")
    repository.check_run(head, "fvec", "run-1", **{**SAID, "status": "queued", "conclusion": None})
    repository.check_run(head, "fvec", "run-1", **SAID)
    repository.dashboard("Dashboard", "nothing yet")
    repository.dashboard("Dashboard", "one run")
    repository.commit_files("fvec/evidence", {"a/b": b"c"}, "First")
    repository.commit_files("fvec/evidence", {"d": b"e"}, "Second")
    repository.update_pull(pull.number, state="closed")
    with pytest.raises(Conflict):
        repository.create_pull("main", "main", "A title", "A body", draft=True)

    assert len(wired.comments(pull.number)) == 1
    assert log(wired, "fvec/evidence") == ["Second", "First"]
