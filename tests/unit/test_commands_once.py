"""A command counts once: the delivery's id is no part of what is signed."""

from dataclasses import replace

import pytest

from bot.service import work
from bot.service.database import Database
from bot.service.rounds import KEPT_S, Rounds
from bot.service.store import Delivery, Store, Work
from bot.wake.events import Event

COMMENT = Event(
    kind="comment",
    action="created",
    repository="Owner/Serve",
    installation=7,
    sender="maintainer",
    sender_is_bot=False,
    comment_id=5,
    body="/fvec rerun",
)


@pytest.fixture
def store(tmp_path):
    database = Database(tmp_path / "jobs.sqlite3")
    yield Store(database)
    database.close()


def _delivered(store: Store, guid: str, event: Event = COMMENT, now_s: float = 100.0) -> str:
    jobs = [Work("decide", f"decide-{guid}", "quick", "{}")]
    delivery = Delivery(guid, "issue_comment", (event.repository,), 7, work.once_of(event))
    return store.record(delivery, jobs, now_s)


def test_a_command_that_is_repeated_under_another_id_makes_no_job(store):
    assert [_delivered(store, guid) for guid in ("a", "b", "a")] == [
        "accepted",
        "duplicate",
        "duplicate",
    ]
    assert store.live_keys() == {"decide-a"}


def test_other_comments_and_other_repositories_are_not_the_same(store):
    others = [
        COMMENT,
        replace(COMMENT, comment_id=6),
        replace(COMMENT, repository="owner/other"),
    ]
    assert [_delivered(store, str(n), event) for n, event in enumerate(others)] == ["accepted"] * 3


@pytest.mark.parametrize(
    "event",
    [
        replace(COMMENT, action="edited"),
        replace(COMMENT, body="a remark"),
        replace(COMMENT, sender_is_bot=True),
        replace(COMMENT, kind="ping"),
        replace(COMMENT, kind="release", action="published"),
    ],
)
def test_nothing_but_a_command_is_remembered(event):
    assert work.once_of(event) == ""


def test_what_is_old_is_forgotten(store):
    _delivered(store, "a")
    Rounds(store.database).prune(100.0 + KEPT_S + 1)
    with store.database.transaction() as db:
        assert db.execute("SELECT count(*) FROM marks").fetchone() == (0,)
