"""Whatever two workers do, and whenever: a job is held by one, and ends once."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from bot.service.database import Database
from bot.service.store import Store, Work

LEASE_S = 60.0
KEYS = [f"key-{n}" for n in range(4)]
LANES = {"key-0": "quick", "key-1": "quick", "key-2": "measure", "key-3": "measure"}


class Workers(RuleBasedStateMachine):
    """Several owners, one database, a clock that the machine moves."""

    claims = Bundle("claims")

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.database = Database(Path(self.folder.name) / "jobs.sqlite3")
        self.store = Store(self.database, lease_s=LEASE_S, most_attempts=3)
        self.now_s = 1000.0
        self.held = {}  # job id -> (claim, until when)
        self.ended = {}  # job id -> state

    def teardown(self):
        self.database.close()
        self.folder.cleanup()

    @rule(key=st.sampled_from(KEYS), later_s=st.sampled_from([0.0, 90.0]))
    def queue(self, key, later_s):
        self.store.enqueue([Work("kind", key, LANES[key], "{}", self.now_s + later_s)], self.now_s)

    @rule(seconds=st.sampled_from([1.0, 29.0, 61.0]))
    def pass_time(self, seconds):
        self.now_s += seconds

    @rule(target=claims, lane=st.sampled_from(["quick", "measure"]), owner=st.sampled_from("ab"))
    def claim(self, lane, owner):
        job = self.store.claim(lane, owner, self.now_s)
        if job is not None:
            assert self.held.get(job.id, (0, 0.0))[1] <= self.now_s, "two hold a job"
            assert job.id not in self.ended
            self.held[job.id] = (job.claim, self.now_s + LEASE_S)
        return job

    @rule(job=claims)
    def extend(self, job):
        if job is not None and self.store.extend(job, self.now_s) != "lost":
            assert self.held[job.id][0] == job.claim
            self.held[job.id] = (job.claim, self.now_s + LEASE_S)

    @rule(
        job=consumes(claims),
        how=st.sampled_from(["finish", "retry", "put off", "give back", "give up"]),
    )
    def let_go(self, job, how):
        if job is None:
            return
        if how == "finish":
            kept = self.store.finish(job, "done", "", self.now_s)
        elif how == "retry":
            kept = self.store.retry(job, "error", self.now_s + 10, self.now_s) is not None
        elif how == "put off":
            kept = self.store.put_off(job, "outage", self.now_s + 10, self.now_s) is not None
        elif how == "give up":
            kept = self.store.give_up(job, "wrong", self.now_s) is not None
        else:
            kept = self.store.give_back(job, self.now_s)
        if kept:
            assert self.held.pop(job.id)[0] == job.claim

    @rule(key=st.sampled_from(KEYS))
    def supersede(self, key):
        self.store.supersede([key], self.now_s)

    @invariant()
    def an_end_is_final(self):
        for id_, state in self.rows("SELECT id, state FROM jobs WHERE ended_s IS NOT NULL"):
            assert self.ended.setdefault(id_, state) == state
            assert state in ("done", "failed", "superseded")

    @invariant()
    def a_key_is_of_one_job_that_is_wanted(self):
        wanted = self.rows(
            "SELECT key FROM jobs WHERE state IN ('queued', 'running') AND superseded = 0"
        )
        assert len(wanted) == len(set(wanted))

    @invariant()
    def one_job_measures(self):
        measuring = self.rows("SELECT id FROM jobs WHERE state = 'running' AND lane = 'measure'")
        assert len(measuring) <= 1

    def rows(self, query):
        with self.database.transaction() as db:
            return db.execute(query).fetchall()


TestWorkers = Workers.TestCase
TestWorkers.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
