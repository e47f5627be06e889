"""Who may only read is answered by a reaction: every comment is sent to all who watch."""

from collections.abc import Iterator

import pytest
from github import Auth

from bot.github.api import Api
from bot.github.repository import Repository
from bot.jobs import decide
from bot.wake.events import Event
from bot.wake.policy import Sleep
from tests.passing_time import PassingTime
from tests.scripted_http import Said, ScriptedServer, scripted_server

HERE = "/repos/owner/serve"
ASKED = Event(
    "comment", "created", "owner/serve", 7, "somebody", sender_is_bot=False, number=3, comment_id=5
)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as script:
        yield script


@pytest.mark.parametrize(
    ("role", "told"),
    [("read", 0), ("none", 0), ("triage", 1), ("maintain", 1), ("write", 1), ("admin", 1)],
)
def test_a_refused_command_is_answered_in_words_to_who_is_concerned(
    server: ScriptedServer, role: str, told: int
) -> None:
    clock = PassingTime().clock
    api = Api(Auth.Token("x" * 8), base_url=server.url, throttle=False, clock=clock)
    said = {"id": 1, "html_url": "https://x", "body": "", "user": {"login": "fvec[bot]"}}
    permission = Said(body={"permission": role, "role_name": role})
    server.answers = [permission, Said(201, {}), Said(body=[]), Said(201, said)]

    repository = Repository(api, "owner/serve", "fvec[bot]")
    decide.answer(ASKED, Sleep("`merge` is no command", answer=True), repository)

    writes = [asked.path for asked in server.asked if asked.method == "POST"]
    reaction, comment = f"{HERE}/issues/comments/5/reactions", f"{HERE}/issues/3/comments"
    assert writes == [reaction, *[comment] * told]


def test_nothing_is_asked_where_nothing_is_answered(server: ScriptedServer) -> None:
    api = Api(Auth.Token("x" * 8), base_url=server.url, throttle=False)
    decide.answer(ASKED, Sleep("not for us"), Repository(api, "owner/serve", "fvec[bot]"))
    assert server.asked == []
