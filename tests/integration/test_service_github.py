"""The service against GitHub on loopback: decisions, reactions, ticks, lost deliveries."""

import json
import os
import tempfile
import time
from contextlib import contextmanager

import pytest

from bot.github.auth import AppCredentials, TokenCredentials
from bot.github.errors import NotFound
from bot.service import redelivery, work
from bot.service.app import Settings, create_app
from bot.service.chores import Chores
from bot.service.database import Database
from bot.service.dispatch import Dispatcher
from bot.service.rounds import TICK_S, Rounds
from bot.service.signature import Secrets
from bot.service.store import Delivery, Store
from bot.service.worker import Worker
from bot.wake.events import parse
from bot.wake.jobs import JobSpec
from tests.service_on_loopback import served

pytest_plugins = ["tests.github.fixtures"]


@pytest.fixture
def database(tmp_path):
    opened = Database(tmp_path / "jobs.sqlite3")
    yield opened
    opened.close()


@pytest.fixture
def store(database):
    return Store(database)


@pytest.fixture
def worker(wired, store, tmp_path):
    credentials = TokenCredentials(wired.token, login=wired.login)
    dispatcher = Dispatcher(
        store, credentials, tmp_path / "work", server_url=wired.url, throttle=False
    )
    return Worker(store, dispatcher, "quick")


@contextmanager
def webhook(fake, store):
    """Let the fake deliver to the service."""
    settings = Settings(Secrets([fake.webhook_secret]), commands_per_hour=2)
    with served(create_app(store, settings)) as url:
        fake.hook_url = f"{url}/webhook"
        yield url


def rows(store):
    with store.database.transaction() as db:
        return db.execute("SELECT kind, lane, state, result FROM jobs ORDER BY id").fetchall()


def work_through(worker):
    while worker._round():
        pass


def test_help_that_a_maintainer_asks_for_is_heard_and_given(wired, store, worker):
    number = wired.open_pull("topic", files={"a.txt": "a"})
    comment_id = wired.comment(number, "/fvec help", login="maintainer")
    with webhook(wired, store):
        delivered = wired.deliver(wired.events.comment(comment_id))
    assert delivered.status == 202
    work_through(worker)
    assert [row[:3] for row in rows(store)] == [
        ("decide", "quick", "done"),
        ("help", "quick", "done"),
    ]
    assert "eyes" in wired.reactions(comment_id)
    answers = [told for told in wired.comments(number) if told["user"]["login"] == wired.login]
    assert len(answers) == 1
    assert "/fvec rerun" in answers[0]["body"]


def test_a_command_of_an_outsider_is_refused_and_makes_no_work(wired, store, worker):
    number = wired.open_pull("topic", files={"a.txt": "a"})
    comment_id = wired.comment(number, "/fvec judge", login="outsider")
    with webhook(wired, store):
        wired.deliver(wired.events.comment(comment_id))
    work_through(worker)
    assert [row[:3] for row in rows(store)] == [("decide", "quick", "done")]
    assert wired.reactions(comment_id) == ["confused"]


def test_a_command_over_the_limit_is_answered_by_a_reaction_alone(wired, store, worker):
    number = wired.open_pull("topic", files={"a.txt": "a"})
    ids = [wired.comment(number, "/fvec help", login="outsider") for _ in range(4)]
    with webhook(wired, store):
        for comment_id in ids:
            wired.deliver(wired.events.comment(comment_id))
    work_through(worker)
    assert [kind for kind, _, _, _ in rows(store)] == ["decide", "decide", "react"]
    assert [wired.reactions(comment_id) for comment_id in ids[2:]] == [["confused"], []]


def test_a_judgement_waits_in_the_measuring_lane_with_the_head_as_it_was(wired, store, worker):
    number = wired.open_pull("topic", files={"a.txt": "a"})
    head = wired.sha("topic")
    comment_id = wired.comment(number, "/fvec judge", login="maintainer")
    with webhook(wired, store):
        wired.deliver(wired.events.comment(comment_id))
    work_through(worker)
    with store.database.transaction() as db:
        lane, state, payload = db.execute(
            "SELECT lane, state, payload FROM jobs WHERE kind = 'judge'"
        ).fetchone()
    assert (lane, state, work.spec_of(payload).sha) == ("measure", "queued", head)


def test_a_repository_is_ticked_and_one_that_is_gone_no_more(wired, store, worker, tmp_path):
    rounds = Rounds(store.database)
    store.record(Delivery("guid-1", "push", (wired.full_name, "owner/gone")), [], 0.0)
    Chores(store, None, tmp_path).tick()
    assert len(rows(store)) == 2
    work_through(worker)
    kept = {row[3] for row in rows(store) if row[0] == "tick"}
    assert {row[2] for row in rows(store) if row[0] == "tick"} == {"done"}
    assert any(told.startswith("ticked no more: ") for told in kept)
    due = rounds.due(time.time() + 2 * TICK_S)
    assert due == [(wired.full_name, None)]


def test_a_tick_that_was_queued_is_not_queued_again(store, tmp_path):
    store.record(Delivery("guid-1", "push", ("owner/serve",)), [], 0.0)
    chores = Chores(store, None, tmp_path, clock=lambda: TICK_S)
    chores.tick()
    chores.tick()
    later = Chores(store, None, tmp_path, clock=lambda: 2 * TICK_S)
    later.tick()
    assert [row[:3] for row in rows(store)] == [("tick", "quick", "queued")]


def app_api(fake):
    return AppCredentials(str(fake.app.id), fake.app.private_key, throttle=False).api


def test_deliveries_that_did_not_arrive_are_asked_for_until_they_have(wired, store):
    number = wired.open_pull("topic", files={"a.txt": "a"})
    rounds = Rounds(store.database)
    ids = [wired.comment(number, "/fvec help", login=login) for login in ("owner", "maintainer")]
    with webhook(wired, store):
        pass  # it was there, and is not any more
    lost = [wired.deliver(wired.events.comment(comment_id)) for comment_id in ids]
    assert [told.status for told in lost] == [0, 0]
    with webhook(wired, store):
        arrived = wired.deliver(wired.events.ping())
        assert arrived.status == 202
        later_s = time.time() + 2 * redelivery.YOUNG_S
        assert redelivery.poll(app_api(wired), rounds, later_s) == 2
        assert redelivery.poll(app_api(wired), rounds, later_s + 1) == 0
    assert rounds.received(told.delivery for told in lost) == {told.delivery for told in lost}
    assert [row[:3] for row in rows(store)] == [("decide", "quick", "queued")] * 2


def test_a_delivery_that_never_arrives_is_given_up(wired, store):
    number = wired.open_pull("topic", files={"a.txt": "a"})
    rounds = Rounds(store.database)
    with webhook(wired, store):
        pass
    wired.deliver(wired.events.comment(wired.comment(number, "/fvec help")))
    asked = [
        redelivery.poll(app_api(wired), rounds, time.time() + 2 * redelivery.YOUNG_S + n)
        for n in range(redelivery.MOST_TRIES + 2)
    ]
    assert asked == [1] * redelivery.MOST_TRIES + [0, 0]


def test_a_poll_that_fails_begins_at_the_same_place_the_next_time(wired, store, tmp_path):
    rounds = Rounds(store.database)
    rounds.set_mark(redelivery.MARK, 123.0)
    wired.faults.add("404", "GET", redelivery.PATH)
    chores = Chores(store, app_api(wired), tmp_path)
    with pytest.raises(NotFound):
        chores.redeliver()
    assert rounds.mark(redelivery.MARK) == 123.0


def test_the_folders_of_repositories_are_put_in_order_one_at_a_look(store, tmp_path):
    homes = [tmp_path / "work" / name for name in ("owner+one", "owner+two")]
    for home in homes:
        (home / "jobs" / "old").mkdir(parents=True)
        os.utime(home / "jobs" / "old", (0.0, 0.0))
    chores = Chores(store, None, tmp_path / "work")
    left = []
    for _ in range(3):
        chores.tidy()
        left.append(sum((home / "jobs" / "old").exists() for home in homes))
    assert left == [1, 0, 0]


def test_temporary_folders_that_a_kill_left_are_removed(store, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    old, new, other = (tmp_path / name for name in ("fvec-git-a", "fvec-git-b", "theirs"))
    for folder in (old, new, other):
        folder.mkdir()
    for folder in (old, other):
        os.utime(folder, (0.0, 0.0))
    Chores(store, None, tmp_path / "work").tidy()
    assert [folder.exists() for folder in (old, new, other)] == [False, True, True]


def lose(store, spec):
    """Let a worker give up a job; the job that tells of it is due."""
    store.enqueue([spec], 0.0)
    store.give_up(store.claim(spec.lane, "worker", 0.0), "Unavailable: GitHub was failing", 1.0)


def test_a_command_that_was_given_up_is_answered(wired, store, worker):
    number = wired.open_pull("topic", files={"a.txt": "a"})
    comment_id = wired.comment(number, "/fvec help", login="maintainer")
    event = parse(*wired.events.comment(comment_id))
    lose(store, work.works_of("guid-1", event)[0])
    work_through(worker)
    assert wired.reactions(comment_id) == ["confused"]
    (told,) = [c["body"] for c in wired.comments(number) if c["user"]["login"] == wired.login]
    assert "given up: Unavailable: GitHub was failing; give the command again" in told


def test_a_job_that_was_given_up_is_told_on_its_pull_request(wired, store, worker):
    number = wired.open_pull("topic", files={"a.txt": "a"})
    spec = JobSpec(kind="judge", repository=wired.full_name, number=number, sha=wired.sha("topic"))
    lose(store, work.of_spec(spec, 0.0))
    work_through(worker)
    (check,) = wired.check_runs(wired.sha("topic"))
    assert check["conclusion"] == "neutral"
    assert "given up: Unavailable: GitHub was failing" in check["output"]["title"]
    assert [row[:3] for row in rows(store)][-1] == ("tell", "quick", "done")


def test_a_repository_without_issues_is_ticked_all_the_same(wired, store, worker):
    name = wired.full_name
    words = ("at", "job", "kind", "state", "why", "summary")
    runs = {"schema": "fvec.runs/1", "runs": [dict.fromkeys(words, "x")]}
    wired.commit({"runs/runs.json": json.dumps(runs)}, branch="fvec/evidence")
    wired.open_pull("fvec/onboard", login=wired.login, files={"a.txt": "a"})
    wired.faults.add("404", "POST", f"/repos/{name}/issues", times=9)
    store.enqueue([work.of_tick(work.Tick(name, None))], 0.0)
    worker._round()
    assert rows(store)[0][:3] == ("tick", "quick", "done")
    assert wired.issues() == []
