"""A repository that was renamed, moved, or is in no installation that works: told as what it is."""

from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from github import Auth

from bot.github.api import Api
from bot.github.auth import AppCredentials
from bot.github.errors import Forbidden, NotFound
from bot.github.repository import Repository
from tests.passing_time import PassingTime
from tests.scripted_http import Said, ScriptedServer, scripted_server

GONE = (
    "There is at least one repository that does not exist or is not accessible to the parent "
    "installation."
)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as script:
        yield script


@pytest.fixture
def repository(server: ScriptedServer) -> Repository:
    clock = PassingTime().clock
    api = Api(Auth.Token("x" * 8), base_url=server.url, throttle=False, clock=clock)
    return Repository(api, "owner/serve", "fvec[bot]")


@pytest.fixture(scope="module")
def private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
    pem = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, pem, serialization.NoEncryption()).decode()


def _told(**fields: Any) -> Said:
    return Said(body={"default_branch": "main", **fields})


def test_a_repository_of_another_name_by_now_is_not_found_under_the_old_one(
    server: ScriptedServer, repository: Repository
) -> None:
    server.answers = [_told(full_name="owner/other"), _told(full_name="else/serve", archived=True)]

    with pytest.raises(NotFound, match="owner/serve is owner/other now"):
        repository.default_branch()
    with pytest.raises(NotFound, match="owner/serve is else/serve now"):
        repository.read_only()


def test_a_name_is_the_same_in_any_case(server: ScriptedServer, repository: Repository) -> None:
    server.answers = [_told(full_name="Owner/Serve"), _told(full_name="Owner/Serve", archived=True)]

    assert (repository.default_branch(), repository.read_only()) == ("main", "archived")


@pytest.mark.parametrize(
    ("status", "message", "kind", "told"),
    [
        (422, GONE, NotFound, "the GitHub App's installation has no owner/serve"),
        (403, "This installation has been suspended", NotFound, "is suspended"),
        (422, "The permissions requested are not granted", Forbidden, "the App lacks a permission"),
        (403, "Resource not accessible by integration", Forbidden, "Resource not accessible"),
    ],
)
def test_an_installation_that_gives_no_token_says_why(
    server: ScriptedServer, private_key: str, status: int, message: str, kind: type, told: str
) -> None:
    clock = PassingTime().clock
    app = AppCredentials("1", private_key, api_url=server.url, throttle=False, clock=clock)
    server.answers = [Said(body={"id": 7}), Said(status, {"message": message})]

    with pytest.raises(kind, match=told):
        app.token("owner/serve")
    assert server.answers == []
