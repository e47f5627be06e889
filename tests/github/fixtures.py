"""Fixtures of the fake GitHub: `pytest_plugins = ["tests.github.fixtures"]` in a test module."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from github import Auth, Github

from tests.github import npm
from tests.github.contract import Contract
from tests.github.fake_github import FakeGitHub
from tests.github.wiring import connected


@pytest.fixture
def fake() -> Iterator[FakeGitHub]:
    """A GitHub on loopback with one commit on main."""
    with FakeGitHub() as github:
        github.commit({"README.md": "# Serving\n"}, message="The first commit")
        yield github


@pytest.fixture(scope="session")
def contract() -> Contract:
    """GitHub's own description of its API, reduced to what the bot may ask for."""
    try:
        return Contract.fetched()
    except npm.Unavailable as why:
        pytest.skip(str(why))


@pytest.fixture(scope="session")
def payloads() -> list[tuple[str, object]]:
    """All payloads that GitHub's own examples hold: event name, payload."""
    try:
        folder = npm.unpacked(npm.WEBHOOK_EXAMPLES)
    except npm.Unavailable as why:
        pytest.skip(str(why))
    (index,) = folder.rglob("api.github.com/index.json")
    events = json.loads(index.read_text(encoding="utf-8"))
    return [(event["name"], example) for event in events for example in event["examples"]]


@pytest.fixture
def wired(fake: FakeGitHub, contract: Contract) -> Iterator[FakeGitHub]:
    """`fake` with PyGithub pointed at it; what was exchanged must keep to the contract."""
    with connected(fake):
        yield fake
    assert contract.violations(fake.requests) == []


@pytest.fixture
def api(wired: FakeGitHub) -> Iterator[Github]:
    """PyGithub as the bot, without its pauses and repetitions."""
    client = Github(
        auth=Auth.Token(wired.token),
        seconds_between_requests=0,
        seconds_between_writes=0,
        retry=None,
    )
    yield client
    client.close()
