"""Deliveries and jobs: what came, what is to be done, who does it, what became of it.

A worker holds a job by a lease, which it extends while it lives. After a lease has ended anybody
may claim the job anew; the worker that lost it is told so by `extend`, and refused by `finish`:
each claim has a number of its own. A job that is given up is told of by a job of its own, in the
same transaction. Times are seconds since the epoch, given by the caller.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from bot.service import limits, rounds
from bot.service.database import Database

Lane = Literal["quick", "measure"]
LANES: tuple[Lane, ...] = ("quick", "measure")
State = Literal["queued", "running", "done", "refused", "failed", "superseded"]
Ended = Literal["done", "refused", "failed", "superseded"]
Receipt = Literal["accepted", "ignored", "limited", "duplicate"]
Lease = Literal["held", "superseded", "lost"]

LEASE_S = 60.0
MOST_ATTEMPTS = 5
LONGEST_DELAY_S = 3 * 86_400.0  # how long a job waits for what it cannot help: GitHub, a disk
TELL: Final = "tell"  # the kind of the job that tells of one that was given up
_UNTOLD = frozenset({TELL, "react", "tick"})  # of these nobody waits for a word
MOST_RESULT = 4_000  # characters kept of what a job says at its end


@dataclass(frozen=True, slots=True)
class Work:
    """A job to be: `key` makes it the same as a live one, `lane` says who may do it when.

    Jobs of the lane `measure` are done one at a time on this machine, whoever does them: two
    measurements would disturb each other.
    """

    kind: str
    key: str
    lane: Lane
    payload: str  # JSON, ASCII
    not_before_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Job:
    """A claimed job; `owner` and `claim` say whose claim it is, `attempt` counts from 1.

    `delays` is how often it was put off.
    """

    id: int
    kind: str
    key: str
    payload: str
    attempt: int
    claim: int
    owner: str
    created_s: float
    delays: int = 0


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery of GitHub's: its id, its event's name and the repositories it is about.

    `once` names what comes once, whatever the delivery's id: that is no part of what is signed.
    """

    id: str
    event: str
    repositories: tuple[str, ...] = ()
    installation: int | None = None
    once: str = ""


@dataclass(frozen=True, slots=True)
class Limit:
    """A sender's limit on commands, and what is done once when it is reached."""

    sender: str
    per_hour: int
    refusal: Work


class Store:
    """The jobs in a database; several processes may use one file at once.

    Every method is one transaction and raises `database.StoreBroken` where that fails.
    """

    def __init__(
        self, database: Database, *, lease_s: float = LEASE_S, most_attempts: int = MOST_ATTEMPTS
    ) -> None:
        """Use an open database; a claim holds for `lease_s` unless extended."""
        self.database = database
        self.lease_s = lease_s
        self.most_attempts = most_attempts

    def record(
        self,
        delivery: Delivery,
        works: Sequence[Work],
        now_s: float,
        *,
        limit: Limit | None = None,
    ) -> Receipt:
        """Keep a delivery and queue what it asks for, both or neither.

        `ignored`: it asks for nothing. `limited`: its sender had no token left.
        """
        with self.database.transaction() as db:
            kept = db.execute(
                "INSERT INTO deliveries (id, event, received_s) VALUES (?, ?, ?)"
                " ON CONFLICT (id) DO NOTHING",
                (delivery.id, delivery.event, now_s),
            )
            if not kept.rowcount or not rounds.is_first(db, delivery.once, now_s):
                return "duplicate"
            rounds.meet(db, delivery.repositories, delivery.installation, now_s)
            answer = _charge(db, limit, now_s) if limit and works else "granted"
            if answer != "granted":
                works = [limit.refusal] if limit and answer == "refused" else []
            _queue(db, works, now_s)
        if answer != "granted":
            return "limited"
        return "accepted" if works else "ignored"

    def enqueue(self, works: Iterable[Work], now_s: float) -> None:
        """Queue jobs; one whose key a live job has is that job, done at the earlier time."""
        with self.database.transaction() as db:
            _queue(db, works, now_s)

    def claim(self, lane: Lane, owner: str, now_s: float) -> Job | None:
        """Return the job of a lane that is due longest, now held by `owner`; None: there is none.

        Jobs whose lease has ended are queued again first, or given up after `most_attempts`.
        """
        with self.database.transaction() as db:
            self._take_back(db, now_s)
            if lane == "measure" and _running(db, lane):
                return None
            row = db.execute(
                "SELECT id FROM jobs WHERE state = 'queued' AND lane = ? AND not_before_s <= ?"
                " ORDER BY not_before_s, id LIMIT 1",
                (lane, now_s),
            ).fetchone()
            if row is None:
                return None
            db.execute(
                "UPDATE jobs SET state = 'running', owner = ?, lease_until_s = ?,"
                " attempts = attempts + 1, claims = claims + 1 WHERE id = ?",
                (owner, now_s + self.lease_s, row[0]),
            )
            held = db.execute(
                "SELECT id, kind, key, payload, attempts, claims, owner, created_s, delays"
                " FROM jobs WHERE id = ?",
                row,
            )
            return Job(*held.fetchone())

    def extend(self, job: Job, now_s: float) -> Lease:
        """Hold a job for another lease; `superseded`: still held, but to be stopped."""
        with self.database.transaction() as db:
            row = _held(db, job)
            if row is None:
                return "lost"
            db.execute(
                "UPDATE jobs SET lease_until_s = ? WHERE id = ?", (now_s + self.lease_s, job.id)
            )
            return "superseded" if row[0] else "held"

    def finish(
        self,
        job: Job,
        state: Ended,
        result: str,
        now_s: float,
        *,
        follow: Sequence[Work] = (),
        supersede: Sequence[str] = (),
    ) -> bool:
        """End a job and queue what follows from it, both or neither; False: the lease was lost.

        Live jobs of the keys `supersede` make way for what follows: those that wait end, and one
        that runs is stopped where all of what follows may start now. A job that was superseded
        meanwhile ends as that, and nothing follows.
        """
        with self.database.transaction() as db:
            row = _held(db, job)
            if row is None:
                return False
            superseded = bool(row[0])
            _end(db, job.id, "superseded" if superseded else state, result, now_s)
            if not superseded:
                starts = all(work.not_before_s <= now_s for work in follow)
                _supersede(db, supersede, now_s, running=starts)
                _queue(db, follow, now_s)
            return True

    def retry(self, job: Job, why: str, not_before_s: float, now_s: float) -> State | None:
        """Queue a job again after an error, or fail it after its last attempt.

        Returns the state it is in now, None where the lease was lost.
        """
        with self.database.transaction() as db:
            row = _held(db, job)
            if row is None:
                return None
            if row[0] or job.attempt >= self.most_attempts:
                return _without_result(db, job, superseded=bool(row[0]), why=why, now_s=now_s)
            db.execute(
                "UPDATE jobs SET state = 'queued', not_before_s = ?, result = ? WHERE id = ?",
                (not_before_s, _kept(why), job.id),
            )
            return "queued"

    def put_off(self, job: Job, why: str, not_before_s: float, now_s: float) -> State | None:
        """Queue a job again that met what passes; it counts as no attempt.

        It is given up after `LONGEST_DELAY_S` of that. Returns the state it is in now, None where
        the lease was lost.
        """
        with self.database.transaction() as db:
            row = _held(db, job)
            if row is None:
                return None
            (since_s,) = db.execute("SELECT delayed_s FROM jobs WHERE id = ?", (job.id,)).fetchone()
            since_s = now_s if since_s is None else since_s
            if row[0] or now_s - since_s > LONGEST_DELAY_S:
                return _without_result(db, job, superseded=bool(row[0]), why=why, now_s=now_s)
            db.execute(
                "UPDATE jobs SET state = 'queued', not_before_s = ?, result = ?, delayed_s = ?,"
                " attempts = attempts - 1, delays = delays + 1 WHERE id = ?",
                (not_before_s, _kept(why), since_s, job.id),
            )
            return "queued"

    def give_up(self, job: Job, why: str, now_s: float) -> State | None:
        """End a job that no other attempt would help; None where the lease was lost."""
        with self.database.transaction() as db:
            row = _held(db, job)
            if row is None:
                return None
            return _without_result(db, job, superseded=bool(row[0]), why=why, now_s=now_s)

    def give_back(self, job: Job, now_s: float) -> bool:
        """Queue a job again that its worker cannot go on with; it counts as no attempt."""
        with self.database.transaction() as db:
            row = _held(db, job)
            if row is None:
                return False
            if row[0]:
                _end(db, job.id, "superseded", "", now_s)
                return True
            db.execute(
                "UPDATE jobs SET state = 'queued', attempts = attempts - 1 WHERE id = ?",
                (job.id,),
            )
            return True

    def supersede(self, keys: Sequence[str], now_s: float) -> None:
        """Cancel live jobs: queued ones end, running ones are told when they extend."""
        with self.database.transaction() as db:
            _supersede(db, keys, now_s)

    def live_keys(self) -> frozenset[str]:
        """Return the keys of the jobs that are queued or running."""
        with self.database.transaction() as db:
            found = db.execute(
                "SELECT key FROM jobs WHERE state IN ('queued', 'running') AND superseded = 0"
            )
            return frozenset(key for (key,) in found)

    def _take_back(self, db: sqlite3.Connection, now_s: float) -> None:
        """End or queue again the jobs whose lease has ended."""
        db.execute(
            "UPDATE jobs SET state = 'superseded', ended_s = ?"
            " WHERE state = 'running' AND lease_until_s <= ? AND superseded = 1",
            (now_s, now_s),
        )
        lost = db.execute(
            "SELECT id, kind, payload, created_s FROM jobs"
            " WHERE state = 'running' AND lease_until_s <= ? AND attempts >= ?",
            (now_s, self.most_attempts),
        ).fetchall()
        for id_, kind, payload, created_s in lost:
            why = "given up: its worker was lost at the last attempt, too"
            _end(db, id_, "failed", why, now_s)
            _queue(db, _loss(id_, kind, payload, created_s, why), now_s)
        db.execute(
            "UPDATE jobs SET state = 'queued' WHERE state = 'running' AND lease_until_s <= ?",
            (now_s,),
        )


def _held(db: sqlite3.Connection, job: Job) -> tuple[int] | None:
    """Return whether the claim's job is superseded, None where the claim holds no more."""
    row: tuple[int] | None = db.execute(
        "SELECT superseded FROM jobs"
        " WHERE id = ? AND claims = ? AND owner = ? AND state = 'running'",
        (job.id, job.claim, job.owner),
    ).fetchone()
    return row


def _running(db: sqlite3.Connection, lane: Lane) -> bool:
    found = db.execute("SELECT 1 FROM jobs WHERE state = 'running' AND lane = ? LIMIT 1", (lane,))
    return found.fetchone() is not None


def _end(db: sqlite3.Connection, id_: int, state: Ended, result: str, now_s: float) -> None:
    db.execute(
        "UPDATE jobs SET state = ?, result = ?, ended_s = ? WHERE id = ?",
        (state, _kept(result), now_s, id_),
    )


def _without_result(
    db: sqlite3.Connection, job: Job, *, superseded: bool, why: str, now_s: float
) -> Ended:
    """End a job that came to nothing; one that failed is told of."""
    ended: Ended = "superseded" if superseded else "failed"
    _end(db, job.id, ended, why, now_s)
    if not superseded:
        _queue(db, _loss(job.id, job.kind, job.payload, job.created_s, why), now_s)
    return ended


def _loss(id_: int, kind: str, payload: str, created_s: float, why: str) -> list[Work]:
    """Return the job that tells of one that was given up; none where nobody waits for it."""
    if kind in _UNTOLD:
        return []
    told = {"job_id": id_, "kind": kind, "payload": payload, "created_s": created_s}
    return [Work(TELL, f"{TELL}-{id_}", "quick", json.dumps({**told, "why": _kept(why)}))]


def _queue(db: sqlite3.Connection, works: Iterable[Work], now_s: float) -> None:
    """Insert jobs; one that waits already is done at the earlier time, unless it failed before."""
    db.executemany(
        "INSERT INTO jobs (kind, lane, key, payload, not_before_s, created_s)"
        " VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (key) WHERE state IN ('queued', 'running') AND superseded = 0"
        " DO UPDATE SET not_before_s = min(not_before_s, excluded.not_before_s)"
        " WHERE state = 'queued' AND attempts = 0 AND delays = 0",
        [(w.kind, w.lane, w.key, w.payload, max(w.not_before_s, now_s), now_s) for w in works],
    )


def _supersede(
    db: sqlite3.Connection, keys: Sequence[str], now_s: float, *, running: bool = True
) -> None:
    """Cancel jobs that wait, and with `running` those that run."""
    db.executemany(
        "UPDATE jobs SET superseded = 1,"
        " ended_s = CASE state WHEN 'queued' THEN ? END,"
        " state = CASE state WHEN 'queued' THEN 'superseded' ELSE state END"
        " WHERE key = ? AND (state = 'queued' OR state = 'running' AND ?)",
        [(now_s, key, running) for key in keys],
    )


def _kept(text: str) -> str:
    """Return text as it can be stored: bounded, and in Unicode."""
    return text[:MOST_RESULT].encode("utf-8", "replace").decode()


def _charge(db: sqlite3.Connection, limit: Limit, now_s: float) -> limits.Answer:
    """Take a token of the sender's."""
    row = db.execute(
        "SELECT tokens, at_s, told FROM senders WHERE login = ?", (limit.sender,)
    ).fetchone()
    known = limits.Bucket(row[0], row[1], bool(row[2])) if row else None
    bucket, answer = limits.take(known, limit.per_hour, now_s)
    db.execute(
        "INSERT OR REPLACE INTO senders (login, tokens, at_s, told) VALUES (?, ?, ?, ?)",
        (limit.sender, bucket.tokens, bucket.at_s, bucket.told),
    )
    return answer
