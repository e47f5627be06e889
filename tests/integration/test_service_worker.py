"""Workers as real processes on a real database: killed, stopped, frozen, and many at once."""

import os
import signal
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.github.errors import RateLimited, Unavailable
from bot.service import store as store_module
from bot.service.database import Database
from bot.service.store import Store, Work
from bot.service.worker import Done, Worker, backoff_s
from layers.errors import InvalidInput

LEASE_S = 30.0
FOLLOWING = Work("help", "help-1", "quick", "{}")
PATIENCE_S = 60.0  # a test that waits longer has failed; none looks at how long it took


@contextmanager
def opened(path, **options):
    database = Database(path)
    try:
        yield Store(database, lease_s=LEASE_S, **options)
    finally:
        database.close()


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "jobs.sqlite3"
    Database(place).close()
    return place


def forked(work):
    """Do `work` in a process of its own, which ends with it; returns its id."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(1)
    return pid


def killed(pid):
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for(condition):
    until_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until_s, "what was waited for did not come"
        time.sleep(0.01)


def jobs(store):
    with store.database.transaction() as db:
        return db.execute("SELECT key, state, attempts FROM jobs ORDER BY id").fetchall()


def run_until_idle(store, perform, lane="quick", *, later_s=0.0, observe=lambda *_: None):
    """Work until no job of the lane is queued or running, `later_s` from now."""
    worker = Worker(
        store,
        perform,
        lane,
        observe=observe,
        clock=lambda: time.time() + later_s,
        poll_s=0.01,
    )
    thread = threading.Thread(target=worker.run)
    thread.start()

    def idle():
        return not any(state in ("queued", "running") for _, state, _ in jobs(store))

    try:
        wait_for(idle)
    finally:
        worker.stop()
        thread.join()


class Effects:
    """What jobs did, as files: the effect of a job is made once however often it is done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def make(self, job):
        (self.folder / f"tries-{job.id}-{job.claim}").touch()
        (self.folder / f"done-{job.id}").touch()
        return Done("done", "made", (FOLLOWING,) if job.kind == "decide" else ())

    def of(self, kind):
        return sorted(file.name for file in self.folder.glob(f"{kind}-*"))


KILLS = ("after the claim", "before the effect", "after the effect", "in the end", "after the end")


@pytest.mark.parametrize("where", KILLS)
def test_a_job_is_done_exactly_once_wherever_its_worker_is_killed(path, tmp_path, where):
    effects = Effects(tmp_path / "effects")
    with opened(path) as store:
        store.enqueue([Work("decide", "decide-1", "quick", "{}")], time.time())
    assert killed(forked(lambda: worker_that_dies(path, effects, where)))
    with opened(path) as store:
        run_until_idle(store, lambda job, _: effects.make(job), later_s=LEASE_S)
        ended = jobs(store)
    attempts = 1 if where == "after the end" else 2
    assert ended == [("decide-1", "done", attempts), ("help-1", "done", 1)]
    assert effects.of("done") == ["done-1", "done-2"]


def worker_that_dies(path, effects, where):
    """Do one job, and be killed at one point of it."""

    class Dying(Store):
        def claim(self, lane, owner, now_s):
            job = super().claim(lane, owner, now_s)
            if job and where == "after the claim":
                die()
            return job

        def finish(self, *arguments, **more):
            kept = super().finish(*arguments, **more)
            if where == "after the end":
                die()
            return kept

    def perform(job, _stopping):
        if where == "before the effect":
            die()
        done = effects.make(job)
        if where == "after the effect":
            die()
        return done

    def end(*arguments):
        really(*arguments)
        die()  # in the transaction that ends the job and queues what follows

    really = store_module._end
    if where == "in the end":
        store_module._end = end
    Worker(Dying(Database(path), lease_s=LEASE_S), perform, "quick", poll_s=0.01).run()


def test_a_worker_that_is_killed_from_outside_while_it_works_loses_nothing(path, tmp_path):
    effects, begun = Effects(tmp_path / "effects"), tmp_path / "begun"
    with opened(path) as store:
        store.enqueue([Work("analyse", "analyse-1", "measure", "{}")], time.time())

    def perform(_job, _stopping):
        begun.touch()
        signal.pause()
        raise AssertionError

    def work():
        Worker(Store(Database(path), lease_s=LEASE_S), perform, "measure", poll_s=0.01).run()

    pid = forked(work)
    wait_for(begun.exists)
    os.kill(pid, signal.SIGKILL)
    assert killed(pid)
    with opened(path) as store:
        assert store.claim("measure", "too early", time.time()) is None
        run_until_idle(store, lambda job, _: effects.make(job), "measure", later_s=LEASE_S)
        assert jobs(store) == [("analyse-1", "done", 2)]
    assert effects.of("done") == ["done-1"]


def test_a_worker_that_was_frozen_beyond_its_lease_changes_nothing_when_it_wakes(path, tmp_path):
    begun, go, told = (tmp_path / name for name in ("begun", "go", "told"))
    with opened(path) as store:
        store.enqueue([Work("decide", "decide-1", "quick", "{}")], time.time())

    def perform(_job, _stopping):
        begun.touch()
        wait_for(go.exists)
        return Done("done", "by the frozen one", (FOLLOWING,))

    def observe(_kind, state, _seconds):
        told.write_text(state)
        os._exit(0)

    def work():
        store = Store(Database(path), lease_s=LEASE_S)
        Worker(store, perform, "quick", observe=observe, poll_s=0.01).run()

    pid = forked(work)
    wait_for(begun.exists)
    os.kill(pid, signal.SIGSTOP)
    with opened(path) as store:
        run_until_idle(store, lambda _job, _: Done("done", "by the other"), later_s=LEASE_S)
        go.touch()
        os.kill(pid, signal.SIGCONT)
        os.waitpid(pid, 0)
        assert jobs(store) == [("decide-1", "done", 2)]
        with store.database.transaction() as db:
            assert db.execute("SELECT result FROM jobs").fetchall() == [("by the other",)]
    assert told.read_text() == "lost"


@pytest.mark.parametrize("lane", ["quick", "measure"])
def test_many_workers_never_hold_a_job_together_and_do_each_once(path, tmp_path, lane):
    effects = Effects(tmp_path / "effects")
    with opened(path) as store:
        store.enqueue([Work("tick", f"tick-{n}", lane, "{}") for n in range(60)], time.time())

    def perform(job, _stopping):
        held = tmp_path / f"held-{job.id if lane == 'quick' else 'machine'}"
        held.touch(exist_ok=False)  # raises where another worker is at it, too
        effects.make(job)
        held.unlink()
        return Done("done", "")

    def work():
        with opened(path) as store:
            run_until_idle(store, perform, lane)
        os._exit(0)

    workers = [forked(work) for _ in range(4)]
    assert [os.waitpid(pid, 0)[1] for pid in workers] == [0] * 4
    with opened(path) as store:
        assert jobs(store) == [(f"tick-{n}", "done", 1) for n in range(60)]
    assert len(effects.of("tries")) == len(effects.of("done")) == 60


def test_workers_that_are_killed_at_any_time_leave_every_job_done(path, tmp_path):
    effects = Effects(tmp_path / "effects")
    with opened(path) as store:
        store.enqueue([Work("tick", f"tick-{n}", "quick", "{}") for n in range(40)], time.time())

    def perform(job, _stopping):
        return effects.make(job)

    def work():
        Worker(Store(Database(path), lease_s=LEASE_S), perform, "quick", poll_s=0.001).run()

    for round_ in range(1, 5):
        pid = forked(work)
        wait_for(lambda enough=round_ * 5: len(effects.of("tries")) >= enough)
        os.kill(pid, signal.SIGKILL)
        assert killed(pid)
    with opened(path) as store:
        run_until_idle(store, perform, later_s=LEASE_S)
        assert {state for _, state, _ in jobs(store)} == {"done"}
    assert len(effects.of("done")) == 40


class Held:
    """A job that is being done, in a thread, until it is told to stop."""

    def __init__(self, store, *, lane="measure"):
        self.begun, self.reasons = threading.Event(), []
        self.worker = Worker(store, self.perform, lane, poll_s=0.01)
        self.thread = threading.Thread(target=self.worker.run)

    def perform(self, _job, stopping):
        self.begun.set()
        wait_for(lambda: stopping() is not None)
        self.reasons.append(stopping())
        if stopping() == "stopping":
            raise InterruptedError("half way")
        return Done("done", "stopped half way")

    def __enter__(self):
        self.thread.start()
        assert self.begun.wait(PATIENCE_S)
        return self

    def __exit__(self, *_):
        self.worker.stop()
        self.thread.join()


def test_a_worker_that_is_stopped_gives_its_job_back(path):
    with opened(path) as store:
        store.enqueue([Work("analyse", "analyse-1", "measure", "{}")], time.time())
        with Held(store) as held:
            held.worker.stop()
            held.thread.join()
            assert (held.reasons, jobs(store)) == (["stopping"], [("analyse-1", "queued", 0)])
        with store.database.transaction() as db:
            assert db.execute("SELECT count(*) FROM workers").fetchone() == (0,)


def test_a_job_that_is_superseded_is_told_while_it_works(path):
    database = Database(path)
    store = Store(database, lease_s=0.2)
    store.enqueue([Work("analyse", "analyse-1", "measure", "{}")], time.time())
    with Held(store) as held:
        store.supersede(["analyse-1"], time.time())
        wait_for(lambda: jobs(store) == [("analyse-1", "superseded", 1)])
    assert held.reasons == ["superseded"]
    database.close()


def test_the_lease_of_a_long_job_is_extended(path):
    database = Database(path)
    store = Store(database, lease_s=0.4)
    store.enqueue([Work("analyse", "analyse-1", "measure", "{}")], time.time())

    def lease_end():
        with database.transaction() as db:
            return db.execute("SELECT lease_until_s FROM jobs").fetchone()[0]

    with Held(store) as held:
        first = lease_end()
        wait_for(lambda: lease_end() > first)
        assert held.reasons == []
    database.close()


def test_work_that_does_not_stop_is_abandoned_and_its_job_given_back(path):
    go = threading.Event()

    def perform(_job, _stopping):
        assert go.wait(PATIENCE_S)
        return Done("done", "too late")

    with opened(path) as store:
        store.enqueue([Work("analyse", "analyse-1", "measure", "{}")], time.time())
        worker = Worker(store, perform, "measure", poll_s=0.01)
        thread = threading.Thread(target=worker.run)
        thread.start()
        wait_for(lambda: jobs(store) == [("analyse-1", "running", 1)])
        worker.stop()
        worker.abandon()
        assert jobs(store) == [("analyse-1", "queued", 0)]
        go.set()
        thread.join()
        assert jobs(store) == [("analyse-1", "queued", 0)]


def ended_by(store, error):
    """Return what becomes of a job whose work raises `error` once, and what was observed."""
    seen = []

    def perform(job, _stopping):
        if job.attempt == 1:
            raise error
        return Done("done", "")

    store.enqueue([Work("decide", "decide-1", "quick", "{}")], time.time())
    worker = Worker(store, perform, "quick", observe=lambda *told: seen.append(told[:2]))
    worker._round()
    with store.database.transaction() as db:
        state, wait_s, result = db.execute(
            "SELECT state, not_before_s - created_s, result FROM jobs"
        ).fetchone()
    return seen, state, wait_s, result


def test_an_error_is_tried_again_later_and_told_without_secrets(path):
    token = "ghp_" + "0" * 36
    with opened(path) as store:
        seen, state, wait_s, result = ended_by(store, Unavailable(f"it broke with {token}"))
    assert (seen, state, wait_s >= backoff_s(1)) == ([("decide", "queued")], "queued", True)
    assert result.startswith("Unavailable: it broke with ")
    assert token not in result


def test_a_rate_limit_is_waited_for(path):
    later = datetime.now(UTC) + timedelta(hours=5)
    with opened(path) as store:
        _, state, wait_s, _ = ended_by(store, RateLimited("slow", status=429, retry_at=later))
    assert (state, wait_s > 4 * 3600) == ("queued", True)


def test_an_outage_is_waited_out_however_often_it_is_met(path):
    later_s = 0.0

    def perform(_job, _stopping):
        raise Unavailable("GitHub is failing")

    with opened(path) as store:
        store.enqueue([Work("decide", "decide-1", "quick", "{}")], time.time())
        worker = Worker(store, perform, "quick", clock=lambda: time.time() + later_s)
        for _ in range(20):
            worker._round()
            later_s += 3600.0
        assert jobs(store) == [("decide-1", "queued", 0)]


def test_work_that_hangs_is_told_to_stop_and_where_it_does_not_the_process_has_to_end(path):
    go = threading.Event()

    def perform(_job, stopping):
        assert go.wait(PATIENCE_S)
        assert stopping() == "stopping"
        return Done("done", "too late")

    database = Database(path)
    store = Store(database, lease_s=0.04)
    store.enqueue([Work("decide", "decide-1", "quick", "{}")], time.time())
    worker = Worker(store, perform, "quick", longest_s=0.0, grace_s=0.0)
    thread = threading.Thread(target=worker._round)
    thread.start()
    assert worker.stuck.wait(PATIENCE_S)
    go.set()
    thread.join()
    database.close()


def test_input_that_is_wrong_is_not_tried_again(path):
    with opened(path) as store:
        seen, state, _, result = ended_by(store, InvalidInput("no such repository"))
    assert (seen, state, result) == (
        [("decide", "failed")],
        "failed",
        "InvalidInput: no such repository",
    )


def test_waits_between_attempts_double_up_to_an_hour():
    assert [backoff_s(n) for n in (1, 2, 3, 7, 60)] == [60.0, 120.0, 240.0, 3600.0, 3600.0]
