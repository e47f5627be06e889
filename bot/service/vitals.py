"""How the service is: whether its file can be written, who works, how long the queue is."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from bot.service.database import Database, StoreBroken
from bot.service.store import Lane

BEAT_S = 15.0  # how often a worker says that it lives
SILENT_S = 90.0  # after which it is taken for dead
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

    def beat(self, owner: str, now_s: float) -> None:
        """Note that a worker lives."""
        with self._database.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO workers (owner, beat_s) VALUES (?, ?)", (owner, now_s)
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
            lives = self._worker_lives(now_s)
        except StoreBroken:
            return "the database cannot be read"
        return None if lives else "no worker has been heard of lately"

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
        lanes: tuple[Lane, ...] = ("quick", "measure")
        return [Queue(lane, *waiting.get(lane, (0, 0.0))) for lane in lanes]

    def _probe(self, now_s: float) -> bool:
        try:
            with self._database.transaction() as db:
                db.execute(
                    "INSERT OR REPLACE INTO marks (name, at_s) VALUES ('probe', ?)", (now_s,)
                )
        except StoreBroken:
            return False
        return True

    def _worker_lives(self, now_s: float) -> bool:
        with self._database.transaction() as db:
            row = db.execute(
                "SELECT 1 FROM workers WHERE beat_s > ? LIMIT 1", (now_s - SILENT_S,)
            ).fetchone()
        return row is not None
