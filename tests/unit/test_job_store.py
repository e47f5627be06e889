"""Deliveries and jobs in a real database."""

import sqlite3
import stat

import pytest

from bot.service import work
from bot.service.database import APPLICATION_ID, VERSION, Database, StoreBroken
from bot.service.rounds import KEPT_S, TICK_S, Rounds, spread
from bot.service.store import LONGEST_DELAY_S, Delivery, Limit, Store, Work
from bot.service.vitals import LATE_S, SILENT_S, Queue, Vitals
from layers.errors import InvalidInput

WORK = Work("rerun", "rerun-1", "measure", "{}")


@pytest.fixture
def database(tmp_path):
    opened = Database(tmp_path / "jobs.sqlite3")
    yield opened
    opened.close()


@pytest.fixture
def store(database):
    return Store(database, lease_s=60, most_attempts=3)


def quick(key="decide-1", not_before_s=0.0, kind="decide"):
    return Work(kind, key, "quick", '{"n": 1}', not_before_s)


def rows(store, columns="kind, key, state"):
    """Return some columns of all jobs, in the order in which they were queued."""
    with store.database.transaction() as db:
        found = db.execute("SELECT * FROM jobs ORDER BY id")
        names = [column[0] for column in found.description]
        return [tuple(row[names.index(name)] for name in columns.split(", ")) for row in found]


def test_a_delivery_is_kept_once_with_its_job(store):
    delivery = Delivery("guid-1", "release", ("owner/serve",), 7)
    receipts = [store.record(delivery, [quick()], 100.0) for _ in range(3)]
    assert receipts == ["accepted", "duplicate", "duplicate"]
    assert rows(store) == [("decide", "decide-1", "queued")]


def test_a_delivery_that_asks_for_nothing_is_kept_too(store):
    receipts = [store.record(Delivery("guid-1", "star"), [], 100.0) for _ in range(2)]
    assert (receipts, rows(store)) == (["ignored", "duplicate"], [])


def test_delivery_and_job_are_kept_together_or_not_at_all(store):
    broken = Work("decide", "decide-2", "quick", None)  # what the table refuses
    with pytest.raises(StoreBroken, match="SQLITE_CONSTRAINT"):
        store.record(Delivery("guid-1", "release"), [quick(), broken], 100.0)
    assert rows(store) == []
    assert store.record(Delivery("guid-1", "release"), [quick()], 101.0) == "accepted"


def test_a_sender_over_the_limit_is_answered_once(store):
    refusal = Work("react", "react-1", "quick", "{}")
    limit = Limit("someone", 2, refusal)
    receipts = [
        store.record(
            Delivery(f"guid-{n}", "issue_comment"), [quick(f"decide-{n}")], 0.0, limit=limit
        )
        for n in range(5)
    ]
    assert receipts == ["accepted", "accepted", "limited", "limited", "limited"]
    assert [key for _, key, _ in rows(store)] == ["decide-0", "decide-1", "react-1"]


def test_a_repeated_delivery_takes_no_token(store):
    limit = Limit("someone", 1, Work("react", "react-1", "quick", "{}"))
    ids = ["guid-1", "guid-1", "guid-2"]
    receipts = [
        store.record(Delivery(one, "issue_comment"), [quick(one)], 0.0, limit=limit) for one in ids
    ]
    assert receipts == ["accepted", "duplicate", "limited"]


def test_jobs_of_a_lane_are_claimed_by_when_they_are_due(store):
    store.enqueue([quick("later", 50.0), quick("first"), quick("second"), WORK], 10.0)
    claimed = [store.claim("quick", "worker", now_s) for now_s in (10.0, 10.0, 10.0, 50.0)]
    assert [job and job.key for job in claimed] == ["first", "second", None, "later"]
    assert store.claim("measure", "worker", 10.0).payload == "{}"


def test_one_job_measures_at_a_time_whoever_does_it(store):
    store.enqueue([WORK, Work("judge", "judge-1", "measure", "{}")], 0.0)
    first = store.claim("measure", "one", 0.0)
    assert store.claim("measure", "two", 1.0) is None
    assert store.finish(first, "done", "", 2.0)
    assert store.claim("measure", "two", 3.0).key == "judge-1"


def test_a_job_that_lives_already_is_not_queued_again_until_it_has_ended(store):
    store.enqueue([WORK], 0.0)
    store.enqueue([WORK], 1.0)
    job = store.claim("measure", "worker", 2.0)
    store.enqueue([WORK], 3.0)
    assert rows(store, "state") == [("running",)]
    store.finish(job, "done", "", 4.0)
    store.enqueue([WORK], 5.0)
    assert rows(store, "state") == [("done",), ("queued",)]


def test_a_job_that_waits_is_done_at_the_earlier_time(store):
    store.enqueue([quick("key", 500.0)], 0.0)
    store.enqueue([quick("key", 100.0)], 0.0)
    store.enqueue([quick("key", 900.0)], 0.0)
    assert rows(store, "not_before_s") == [(100.0,)]


def test_a_job_that_failed_before_is_not_hurried(store):
    store.enqueue([quick("key")], 0.0)
    store.retry(store.claim("quick", "worker", 0.0), "GitHub is failing", 600.0, 1.0)
    store.enqueue([quick("key")], 2.0)
    assert rows(store, "not_before_s, result") == [(600.0, "GitHub is failing")]


def test_an_extended_lease_holds(store):
    store.enqueue([WORK], 0.0)
    job = store.claim("measure", "one", 0.0)
    assert store.extend(job, 59.0) == "held"
    assert store.claim("measure", "two", 118.0) is None
    assert store.claim("measure", "two", 119.0).claim == 2


def test_a_lost_lease_is_told_and_its_worker_changes_nothing(store):
    store.enqueue([WORK], 0.0)
    lost = store.claim("measure", "one", 0.0)
    held = store.claim("measure", "two", 60.0)
    assert (held.id, held.attempt, held.owner) == (lost.id, 2, "two")
    assert store.extend(lost, 61.0) == "lost"
    assert store.finish(lost, "done", "from the dead", 62.0, follow=[quick()]) is False
    assert store.retry(lost, "from the dead", 0.0, 62.0) is None
    assert store.give_back(lost, 62.0) is False
    assert rows(store, "key, state, owner") == [("rerun-1", "running", "two")]


def test_a_worker_that_claims_its_own_lost_job_again_holds_it_by_the_new_claim_alone(store):
    store.enqueue([WORK], 0.0)
    stale = store.claim("measure", "one", 0.0)
    fresh = store.claim("measure", "one", 60.0)
    assert store.finish(stale, "done", "", 61.0) is False
    assert store.finish(fresh, "done", "", 62.0) is True


def test_a_job_that_takes_its_workers_along_is_given_up(store):
    store.enqueue([WORK], 0.0)
    attempts = [store.claim("measure", "worker", 60.0 * n).attempt for n in range(3)]
    assert (attempts, store.claim("measure", "worker", 180.0)) == ([1, 2, 3], None)
    told = "given up: its worker was lost at the last attempt, too"
    assert rows(store, "state, result") == [("failed", told), ("queued", "")]
    assert work.loss_of(store.claim("quick", "worker", 180.0).payload) == work.Loss(
        1, "rerun", "{}", 0.0, told
    )


def test_a_job_is_tried_again_after_an_error_until_its_attempts_are_over(store):
    store.enqueue([quick()], 0.0)
    states = []
    for n in range(3):
        job = store.claim("quick", "worker", 100.0 * n)
        states.append(store.retry(job, f"error {n}", 100.0 * (n + 1), 100.0 * n))
    assert states == ["queued", "queued", "failed"]
    assert rows(store, "state, result, ended_s") == [
        ("failed", "error 2", 200.0),
        ("queued", "", None),
    ]
    told = store.claim("quick", "worker", 200.0)
    assert (told.kind, work.loss_of(told.payload).why) == ("tell", "error 2")


def test_an_outage_of_a_day_uses_up_no_attempt_and_one_of_days_is_given_up_and_told(store):
    store.enqueue([quick()], 0.0)
    hours = range(0, int(LONGEST_DELAY_S) + 3600, 3600)
    for now_s in map(float, hours):
        job = store.claim("quick", "worker", now_s)
        assert (job.attempt, job.delays) == (1, now_s // 3600)
        assert store.put_off(job, "GitHub is failing", now_s + 3600, now_s) == "queued"
    last = store.claim("quick", "worker", LONGEST_DELAY_S + 3600)
    assert store.put_off(last, "GitHub is failing", 0.0, LONGEST_DELAY_S + 3600) == "failed"
    assert rows(store, "kind, state") == [("decide", "failed"), ("tell", "queued")]


def test_a_job_that_was_put_off_is_not_hurried(store):
    store.enqueue([quick("key")], 0.0)
    store.put_off(store.claim("quick", "worker", 0.0), "GitHub is failing", 600.0, 1.0)
    store.enqueue([quick("key")], 2.0)
    assert rows(store, "not_before_s") == [(600.0,)]


@pytest.mark.parametrize("kind", ["tell", "react", "tick"])
def test_of_what_nobody_waits_for_nobody_is_told(store, kind):
    store.enqueue([quick(kind=kind)], 0.0)
    assert store.give_up(store.claim("quick", "worker", 0.0), "wrong", 1.0) == "failed"
    assert rows(store, "kind, state") == [(kind, "failed")]


def test_a_job_that_is_given_back_has_had_no_attempt(store):
    store.enqueue([WORK], 0.0)
    for _ in range(10):
        job = store.claim("measure", "worker", 0.0)
        assert (job.attempt, store.give_back(job, 0.0)) == (1, True)


def test_what_follows_is_queued_with_the_end_of_what_asked_for_it(store):
    store.enqueue([quick()], 0.0)
    job = store.claim("quick", "worker", 0.0)
    assert store.finish(job, "done", "a release", 1.0, follow=[WORK])
    assert rows(store) == [("decide", "decide-1", "done"), ("rerun", "rerun-1", "queued")]


def test_a_newer_job_makes_older_ones_end_or_stop(store):
    older, waiting, newer = (Work("analyse", f"analyse-{n}", "measure", "{}") for n in range(3))
    store.enqueue([older, quick("decide-1"), quick("decide-2")], 0.0)
    running = store.claim("measure", "worker", 0.0)
    first = store.claim("quick", "decider", 0.0)
    store.finish(first, "done", "", 1.0, follow=[waiting])
    second = store.claim("quick", "decider", 1.0)
    store.finish(second, "done", "", 2.0, follow=[newer], supersede=[older.key, waiting.key])
    states = {key: state for _, key, state in rows(store)}
    assert states["analyse-1"] == "superseded"
    assert store.extend(running, 3.0) == "superseded"
    assert store.claim("measure", "other", 3.0) is None
    assert store.finish(running, "done", "stopped half way", 4.0, follow=[quick("no")]) is True
    assert {key: state for _, key, state in rows(store)} == {
        "analyse-0": "superseded",
        "analyse-1": "superseded",
        "analyse-2": "queued",
        "decide-1": "done",
        "decide-2": "done",
    }


def test_what_runs_goes_on_while_what_replaces_it_has_to_wait(store):
    older, waiting = (Work("analyse", f"analyse-{n}", "measure", "{}") for n in range(2))
    store.enqueue([older], 0.0)
    running = store.claim("measure", "worker", 0.0)
    store.enqueue([waiting, quick()], 0.0)
    later = Work("analyse", "analyse-2", "measure", "{}", not_before_s=99.0)
    decided = store.claim("quick", "worker", 1.0)
    follow, replaced = [later, quick("freshen-2")], [older.key, waiting.key]
    assert store.finish(decided, "done", "", 2.0, follow=follow, supersede=replaced)
    assert store.extend(running, 3.0) == "held"
    states = dict(rows(store, "key, state"))
    assert (states[older.key], states[waiting.key], states[later.key]) == (
        "running",
        "superseded",
        "queued",
    )


def test_a_superseded_job_ends_so_whatever_becomes_of_its_worker(store):
    for n, end in enumerate((store.give_back, lambda job, s: store.retry(job, "e", s, s))):
        store.enqueue([Work("judge", f"judge-{n}", "measure", "{}")], 0.0)
        job = store.claim("measure", "worker", 0.0)
        store.supersede([job.key], 1.0)
        end(job, 2.0)
    store.enqueue([WORK], 3.0)
    lost = store.claim("measure", "worker", 3.0)
    store.supersede([lost.key], 4.0)
    assert store.claim("measure", "worker", 63.0) is None
    assert rows(store, "state") == [("superseded",)] * 3


def test_the_work_of_a_job_that_is_being_stopped_can_be_queued_again(store):
    store.enqueue([WORK], 0.0)
    store.claim("measure", "worker", 0.0)
    store.supersede([WORK.key], 1.0)
    assert store.live_keys() == frozenset()
    store.enqueue([WORK], 2.0)
    assert rows(store, "state") == [("running",), ("queued",)]
    assert store.live_keys() == {WORK.key}


def test_what_a_job_says_at_its_end_is_kept_in_bounds_and_in_unicode(store):
    store.enqueue([WORK], 0.0)
    store.finish(store.claim("measure", "worker", 0.0), "done", "\ud800" + "x" * 9999, 1.0)
    ((kept,),) = rows(store, "result")
    assert kept == "?" + "x" * 3999


def test_two_processes_share_a_file(store, tmp_path):
    other = Database(tmp_path / "jobs.sqlite3")
    try:
        store.enqueue([quick()], 0.0)
        assert Store(other).claim("quick", "other", 0.0).key == "decide-1"
        assert store.claim("quick", "one", 0.0) is None
    finally:
        other.close()


def test_the_file_is_of_this_user_alone_and_says_whose_it_is(database):
    assert stat.S_IMODE(database.path.stat().st_mode) == 0o600
    with database.transaction() as db:
        told = [
            db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version", "journal_mode", "synchronous")
        ]
    assert told == [APPLICATION_ID, VERSION, "wal", 2]


def test_a_file_of_another_program_is_left_alone(tmp_path):
    path = tmp_path / "other.sqlite3"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (n INTEGER)")
    other.close()
    with pytest.raises(InvalidInput, match="it belongs to another program"):
        Database(path)
    (tmp_path / "text").write_text("no database at all, but long enough to have a header " * 20)
    with pytest.raises(InvalidInput, match="it is no database that can be used"):
        Database(tmp_path / "text")
    with pytest.raises(InvalidInput, match="the database cannot be opened"):
        Database(tmp_path / "nowhere" / "jobs.sqlite3")


def test_a_file_of_a_newer_fvec_is_left_alone(tmp_path):
    path = tmp_path / "jobs.sqlite3"
    Database(path).close()
    with sqlite3.connect(path) as newer:
        newer.execute(f"PRAGMA user_version = {VERSION + 1}")
    newer.close()
    with pytest.raises(InvalidInput, match=f"it is of version {VERSION + 1}"):
        Database(path)


def test_a_repository_is_ticked_once_a_round_and_all_at_their_own_time(store):
    rounds = Rounds(store.database)
    names = ("owner/one", "owner/two")
    store.record(Delivery("guid-1", "installation", names, 7), [], 1000.0)
    store.record(Delivery("guid-2", "push", names[:1], 7), [], 2000.0)
    due = {name: 1000.0 + TICK_S * spread(name) for name in names}
    assert due["owner/one"] != due["owner/two"]
    assert rounds.due(min(due.values()) - 1) == []
    assert rounds.due(1000.0 + TICK_S) == [("owner/one", 7), ("owner/two", 7)]
    rounds.ticked(names, 1000.0 + TICK_S)
    assert rounds.due(999.0 + 2 * TICK_S) == []
    rounds.forget("owner/two")
    assert rounds.due(1000.0 + 2 * TICK_S) == [("owner/one", 7)]


def test_a_repository_is_of_the_installation_that_spoke_last(store):
    rounds = Rounds(store.database)
    for n, installation in enumerate((7, None, 8)):
        store.record(Delivery(f"guid-{n}", "push", ("owner/one",), installation), [], 0.0)
    assert rounds.due(TICK_S) == [("owner/one", 8)]


def test_a_turn_is_taken_by_one(store):
    rounds = Rounds(store.database)
    taken = [rounds.take_turn("poll", 600.0, now_s) for now_s in (0.0, 0.0, 599.0, 600.0, 1.0)]
    assert taken == [True, False, False, True, True]  # at last a clock that went back


def test_a_redelivery_is_asked_for_a_few_times(store):
    rounds = Rounds(store.database)
    assert [rounds.try_again("guid", 2, 0.0) for _ in range(4)] == [True, True, False, False]


def test_old_things_are_forgotten_and_live_jobs_are_not(store):
    rounds, vitals = Rounds(store.database), Vitals(store.database)
    store.record(Delivery("old", "push"), [quick("ended")], 0.0)
    store.finish(store.claim("quick", "worker", 0.0), "done", "", 0.0)
    store.record(Delivery("new", "push"), [quick("waits")], 0.0)
    vitals.beat("worker", "quick", 0.0)
    store.record(Delivery("newest", "push"), [], 2 * KEPT_S)
    rounds.prune(2 * KEPT_S)
    assert rounds.received(["old", "new", "newest"]) == {"newest"}
    assert rows(store, "key") == [("waits",)]


def test_health_is_a_file_that_can_be_written_and_workers_of_each_lane_that_live(store):
    vitals = Vitals(store.database)
    nobody = "no worker of the lane quick or measure has been heard of lately"
    nobody_measures = "no worker of the lane measure has been heard of lately"
    assert vitals.trouble(0.0) == nobody
    vitals.beat("worker", "quick", 0.0)
    assert vitals.trouble(1.0) == nobody_measures
    vitals.beat("other", "measure", 0.0)
    assert (vitals.trouble(1.0), vitals.trouble(SILENT_S)) == (None, nobody)
    vitals.beat("worker", "quick", SILENT_S)
    vitals.beat("other", "measure", SILENT_S)
    vitals.silent("other")
    assert vitals.trouble(SILENT_S) == nobody_measures
    store.database.close()
    assert vitals.trouble(1000.0) == "the database cannot be written"


def test_a_beat_of_before_the_clock_went_back_is_no_sign_of_life(store):
    vitals = Vitals(store.database)
    for lane in ("quick", "measure"):
        vitals.beat(lane, lane, 100_000.0)
    assert vitals.trouble(0.0) == "no worker of the lane quick or measure has been heard of lately"


def test_a_quick_lane_that_does_nothing_is_told_though_its_worker_beats(store):
    vitals = Vitals(store.database)
    store.enqueue([quick()], 0.0)
    for lane in ("quick", "measure"):
        vitals.beat(lane, lane, LATE_S + 1)
    assert vitals.trouble(LATE_S + 1) == "jobs that take seconds wait for half an hour"


def test_queues_tell_what_is_due_and_how_long(store):
    store.enqueue([quick("a"), quick("b", 40.0), quick("c", 900.0)], 10.0)
    vitals = Vitals(store.database)
    assert vitals.queues(50.0) == [Queue("quick", 2, 40.0), Queue("measure", 0, 0.0)]
    store.claim("quick", "worker", 50.0)
    assert vitals.jobs() == [("decide", "queued", 2), ("decide", "running", 1)]
