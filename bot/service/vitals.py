"""How the service is: whether its file can be written, who works, how long the queue is."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from bot.service.database import Database, StoreBroken
from bot.service.store import LANES, Lane

BEAT_S = 15.0  # how often a worker says that it lives
SILENT_S = 90.0  # after which it is taken for dead
LATE_S = 1800.0  # a quick job that has waited so long is done by nobody
PROBE_S = 2.0  # a probe writes to the disk: asked more often, the last answer holds


@dataclass(frozen=True, slots=True)
class Queue:
    """Jobs of one lane that are due and not begun; `oldest_s`: how long one has waited, or 0."""

    lane: Lane
    depth: int
    oldest_s: float


class Vitals:
    """Signs of life in a database."""

    def __init__(self, database: Database) -> None:
        """Use an open database."""
        self._database = database
        self._turn = threading.Lock()
        self._probed_s = float("-inf")
        self._writable = False

    def beat(self, owner: str, lane: Lane, now_s: float) -> None:
        """Note that a worker of a lane lives."""
        with self._database.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO workers (owner, lane, beat_s) VALUES (?, ?, ?)",
                (owner, lane, now_s),
            )

    def silent(self, owner: str) -> None:
        """Note that a worker has ended."""
        with self._database.transaction() as db:
            db.execute("DELETE FROM workers WHERE owner = ?", (owner,))

    def trouble(self, now_s: float) -> str | None:
        """Return what is wrong in a few words for anybody, None where nothing is.

        Raises nothing: that the file cannot be used is an answer.
        """
        with self._turn:
            if not 0 <= now_s - self._probed_s < PROBE_S:
                self._writable = self._probe(now_s)
                self._probed_s = now_s
            writable = self._writable
        if not writable:
            return "the database cannot be written"
        try:
            working = self._lanes_with_a_worker(now_s)
            quick, _ = self.queues(now_s)
        except StoreBroken:
            return "the database cannot be read"
        idle = [lane for lane in LANES if lane not in working]
        if idle:
            return f"no worker of the lane {' or '.join(idle)} has been heard of lately"
        return "jobs that take seconds wait for half an hour" if quick.oldest_s > LATE_S else None

    def jobs(self) -> list[tuple[str, str, int]]:
        """Return how many jobs are kept of each kind and state: kind, state, count."""
        with self._database.transaction() as db:
            return db.execute(
                "SELECT kind, state, count(*) FROM jobs GROUP BY kind, state ORDER BY kind, state"
            ).fetchall()

    def queues(self, now_s: float) -> list[Queue]:
        """Return what waits in each lane."""
        with self._database.transaction() as db:
            found = db.execute(
                "SELECT lane, count(*), min(not_before_s) FROM jobs"
                " WHERE state = 'queued' AND not_before_s <= ? GROUP BY lane",
                (now_s,),
            )
            waiting = {lane: (depth, now_s - since_s) for lane, depth, since_s in found}
        return [Queue(lane, *waiting.get(lane, (0, 0.0))) for lane in LANES]

    def _probe(self, now_s: float) -> bool:
        try:
            with self._database.transaction() as db:
                db.execute(
                    "INSERT OR REPLACE INTO marks (name, at_s) VALUES ('probe', ?)", (now_s,)
                )
        except StoreBroken:
            return False
        return True

    def _lanes_with_a_worker(self, now_s: float) -> frozenset[str]:
        """Return the lanes that a worker was heard of in; a beat of the future is no news."""
        with self._database.transaction() as db:
            found = db.execute(
                "SELECT DISTINCT lane FROM workers WHERE abs(beat_s - ?) < ?", (now_s, SILENT_S)
            )
            return frozenset(lane for (lane,) in found)
