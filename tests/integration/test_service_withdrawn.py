"""A command whose author has deleted it before it was looked at."""

from pathlib import Path

import pytest

from bot.github.auth import TokenCredentials
from bot.service import work
from bot.service.database import Database
from bot.service.dispatch import Dispatcher
from bot.service.store import Store
from bot.service.worker import Worker
from bot.wake.events import parse
from tests.github.fake_github import FakeGitHub

pytest_plugins = ["tests.github.fixtures"]


@pytest.mark.parametrize("command", ["/fvec help", "/fvec nonsense"])
def test_nothing_follows_from_a_command_that_is_gone(
    fake: FakeGitHub, tmp_path: Path, command: str
) -> None:
    number = fake.open_pull("topic", files={"a.txt": "a"})
    comment_id = fake.comment(number, command, login="maintainer")
    event = parse(*fake.events.comment(comment_id))
    assert event is not None
    fake.faults.add("404", "POST", f"*/issues/comments/{comment_id}/reactions", times=9)
    database = Database(tmp_path / "jobs.sqlite3")
    try:
        store = Store(database)
        store.enqueue(work.works_of("guid-1", event), 0.0)
        credentials = TokenCredentials(fake.token, login=fake.login, api_url=fake.url)
        dispatcher = Dispatcher(
            store, credentials, tmp_path / "work", server_url=fake.url, throttle=False
        )
        worker = Worker(store, dispatcher, "quick")
        while worker._round():
            pass
        with database.transaction() as db:
            found = db.execute("SELECT kind, state FROM jobs ORDER BY id").fetchall()
    finally:
        database.close()
    assert found == [("decide", "done")]
    assert [told for told in fake.comments(number) if told["user"]["login"] == fake.login] == []
