"""A locked conversation takes no word and no reaction; that holds up nothing else."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from github import Auth

from bot.github.api import Api
from bot.github.errors import Answer, Forbidden, Locked, refusal
from bot.github.forge import GitHubForge
from bot.github.replies import PullReply
from bot.github.repository import Repository
from tests.passing_time import PassingTime
from tests.scripted_http import Said, ScriptedServer, scripted_server
from tests.unit.test_github_replies import pull

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
COMMENTS = "/repos/owner/serve/issues/7/comments"
LOCKED = Said(403, {"message": "Unable to create comment because issue is locked."})
NOT_ALLOWED = Said(403, {"message": "Resource not accessible by integration"})


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as script:
        yield script


@pytest.fixture
def repository(server: ScriptedServer) -> Repository:
    clock = PassingTime().clock
    api = Api(Auth.Token("x" * 8), base_url=server.url, throttle=False, clock=clock)
    return Repository(api, "owner/serve", "fvec[bot]")


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ("Unable to create comment because issue is locked.", Locked),
        ("Unable to create reaction: the conversation is locked", Locked),
        ("Resource not accessible by integration", Forbidden),
        ("Repository has been locked for migration", Forbidden),
        ("The issue is in a blocked repository", Forbidden),
    ],
)
def test_a_lock_is_told_from_a_permission_that_is_missing(told: str, kind: type) -> None:
    error = refusal("POST", COMMENTS, Answer(403, {}, {"message": told}), now=NOW)

    assert type(error) is kind
    assert told in error.message


def test_what_cannot_be_said_in_a_locked_conversation_is_not_said(
    server: ScriptedServer, repository: Repository
) -> None:
    server.answers = [Said(body=[]), LOCKED, LOCKED]

    repository.tell(7, "report", "text")
    repository.react(99, "eyes")

    assert [asked.method for asked in server.asked] == ["GET", "POST", "POST"]
    assert server.answers == []


def test_whoever_needs_the_comment_hears_of_the_lock(
    server: ScriptedServer, repository: Repository
) -> None:
    server.answers = [Said(body=[]), LOCKED]

    with pytest.raises(Locked):
        repository.sticky_comment(7, "report", "text")


def test_a_permission_that_is_missing_is_an_error_all_the_same(
    server: ScriptedServer, repository: Repository
) -> None:
    server.answers = [Said(body=[]), NOT_ALLOWED, NOT_ALLOWED]

    with pytest.raises(Forbidden):
        repository.tell(7, "report", "text")
    with pytest.raises(Forbidden):
        repository.react(99, "eyes")


@pytest.mark.parametrize(("login", "ours"), [("Fvec[bot]", True), ("somebody", False)])
def test_a_login_is_the_same_in_any_case(repository, login, ours) -> None:
    there = PullReply.model_validate(pull(user={"login": login})).data()

    assert GitHubForge(repository, None).is_ours(there) is ours
