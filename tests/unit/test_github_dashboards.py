"""Two processes may each open a dashboard at one time: the first stays the one that is kept."""

from collections.abc import Iterator
from typing import Any

import pytest
from github import Auth

from bot.github.api import Api
from bot.github.repository import DASHBOARD, Repository, marker
from tests.passing_time import PassingTime
from tests.scripted_http import Said, ScriptedServer, scripted_server

ISSUES = "/repos/owner/serve/issues"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as script:
        yield script


@pytest.fixture
def repository(server: ScriptedServer) -> Repository:
    clock = PassingTime().clock
    api = Api(Auth.Token("x" * 8), base_url=server.url, throttle=False, clock=clock)
    return Repository(api, "owner/serve", "fvec[bot]")


def _issue(number: int, state: str = "open", text: str = "old") -> dict[str, Any]:
    return {
        "number": number,
        "state": state,
        "title": "Dashboard",
        "body": f"{marker(DASHBOARD)}\n{text}",
        "user": {"login": "fvec[bot]"},
        "labels": [],
    }


@pytest.mark.parametrize(
    ("there", "kept", "closed"),
    [
        ([_issue(9), _issue(7)], 7, [9]),
        ([_issue(9), _issue(8), _issue(7, "closed")], 8, [9]),
        ([_issue(9, "closed"), _issue(7, "closed")], 7, []),
        ([_issue(7)], 7, []),
    ],
)
def test_one_dashboard_is_kept_and_any_other_closed(
    server: ScriptedServer,
    repository: Repository,
    there: list[dict[str, Any]],
    kept: int,
    closed: list[int],
) -> None:
    server.answers = [Said(body=there)]

    assert repository.dashboard("Dashboard", "new") == kept

    writes = [(asked.path, asked.body) for asked in server.asked if asked.method == "PATCH"]
    assert writes[:-1] == [(f"{ISSUES}/{number}", {"state": "closed"}) for number in closed]
    assert writes[-1][0] == f"{ISSUES}/{kept}"
    assert writes[-1][1]["body"].endswith("\nnew")


def test_none_is_closed_where_nothing_else_is_there(
    server: ScriptedServer, repository: Repository
) -> None:
    server.answers = [Said(body=[]), Said(201, _issue(3))]

    assert repository.dashboard("Dashboard", "old") == 3
    assert [asked.method for asked in server.asked] == ["GET", "POST"]
