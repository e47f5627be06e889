"""A worker: claims jobs of one lane, does them, and holds their leases while it does.

A worker that is killed loses nothing: its lease ends and the job is claimed anew. One that is asked
to stop tells the work, and gives the job back. What the work does twice is up to the work.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal

from bot.github.errors import RateLimited, Unavailable
from bot.service.database import StoreBroken
from bot.service.store import Ended, Job, Lane, State, Store, Work
from bot.service.vitals import BEAT_S, Vitals
from layers.errors import InvalidInput, Missing
from layers.redact import redact

StopReason = Literal["superseded", "stopping"]

POLL_S = 1.0  # between looks at an empty queue
# What takes longer hangs: a day's budget and what goes with it, or a fetch and some requests.
LONGEST_S: dict[Lane, float] = {"measure": 30 * 3600.0, "quick": 2 * 3600.0}
GRACE_S = 60.0  # for work to stop: a measuring program takes down its servers first
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 60.0, 3600.0
_BEATS_A_LEASE = 4
_PERMANENT = (InvalidInput, Missing)  # the next attempt would end alike
_PASSING = (RateLimited, Unavailable, StoreBroken)  # not the work's fault: it counts as no attempt
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Done:
    """How a job ended, the jobs that follow from it, and the keys of those that make way."""

    state: Ended
    result: str
    follow: tuple[Work, ...] = ()
    supersede: tuple[str, ...] = ()


Stopping = Callable[[], StopReason | None]
Perform = Callable[[Job, Stopping], Done]
Observe = Callable[[str, str, float], None]  # kind, state, seconds


def backoff_s(attempt: int) -> float:
    """Return how long a job waits after an attempt that failed, counted from 1."""
    doublings = min(attempt - 1, 20)
    return float(min(FIRST_BACKOFF_S * 2**doublings, LONGEST_BACKOFF_S))


class Hold:
    """What the work of one job is told about stopping; the first reason holds."""

    def __init__(self) -> None:
        """Begin with no reason to stop."""
        self.reason: StopReason | None = None
        self.overdue = False

    def __call__(self) -> StopReason | None:
        """Return why the work is to stop, None while it is not."""
        return self.reason

    def stop(self, reason: StopReason) -> None:
        """Tell the work to stop; a reason that was given stays."""
        self.reason = self.reason or reason


class Worker:
    """One thread's work on one lane, until `stop`."""

    def __init__(
        self,
        store: Store,
        perform: Perform,
        lane: Lane,
        *,
        observe: Observe = lambda _kind, _state, _seconds: None,
        clock: Callable[[], float] = time.time,
        poll_s: float = POLL_S,
        longest_s: float | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        """Do jobs of `lane` by `perform`, which may raise; `observe` hears how each ended.

        `stuck` is set where work goes on `grace_s` after it was told to stop, since it took longer
        than `longest_s` (default: that of the lane): nothing but the end of this process ends it.
        """
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{lane}:{secrets.token_hex(4)}"
        self._store, self._perform, self._lane = store, perform, lane
        self._vitals = Vitals(store.database)
        self._observe, self._clock, self._poll_s = observe, clock, poll_s
        self._stop = threading.Event()
        self._turn = threading.Lock()
        self._current: tuple[Job, Hold] | None = None
        self._beat_s = float("-inf")
        self._longest_s = LONGEST_S[lane] if longest_s is None else longest_s
        self._grace_s = grace_s
        self.stuck = threading.Event()

    def run(self) -> None:
        """Work until `stop` is called; an unusable database is waited for."""
        try:
            while not self._stop.is_set():
                if not self._round():
                    self._stop.wait(self._poll_s)
        finally:
            with suppress(StoreBroken):
                self._vitals.silent(self.owner)

    def stop(self) -> None:
        """Claim no more, and tell the work that it is to stop. Returns at once."""
        with self._turn:
            self._stop.set()
            if self._current:
                self._current[1].stop("stopping")

    def abandon(self) -> None:
        """Give back the job whose work did not stop in time: this process is about to end."""
        with self._turn:
            if self._current:
                self._store.give_back(self._current[0], self._clock())

    def _round(self) -> bool:
        """Do one job, if there is one; say whether to look for the next at once."""
        try:
            self._beat()
            job = self._store.claim(self._lane, self.owner, self._clock())
            if job is not None:
                self._work(job)
        except StoreBroken:
            log.exception("the worker of lane %s waits for its database", self._lane)
            return False
        return job is not None

    def _beat(self) -> None:
        if abs(self._clock() - self._beat_s) >= BEAT_S:
            self._beat_s = self._clock()
            self._vitals.beat(self.owner, self._lane, self._beat_s)

    def _work(self, job: Job) -> None:
        began_s = time.monotonic()
        log.info("job %d %s: attempt %d", job.id, job.kind, job.attempt)
        with self._holding(job) as hold:
            try:
                done = self._perform(job, hold)
            except Exception as error:
                log.exception("job %d %s: attempt %d ended early", job.id, job.kind, job.attempt)
                state = self._ended_early(job, hold, error)
            else:
                state = self._finish(job, done)
        log.info("job %d %s: %s", job.id, job.kind, state)
        self._observe(job.kind, state, time.monotonic() - began_s)

    @contextmanager
    def _holding(self, job: Job) -> Iterator[Hold]:
        """Extend the job's lease, by a thread of its own, until the block has ended."""
        hold, ended = Hold(), threading.Event()
        heart = threading.Thread(
            target=self._extend, args=(job, hold, ended), name=f"lease-{job.id}", daemon=True
        )
        with self._turn:
            self._current = job, hold
            if self._stop.is_set():
                hold.stop("stopping")
        heart.start()
        try:
            yield hold
        finally:
            ended.set()
            heart.join()
            with self._turn:
                self._current = None

    def _extend(self, job: Job, hold: Hold, ended: threading.Event) -> None:
        began_s = time.monotonic()
        while not ended.wait(min(self._store.lease_s / _BEATS_A_LEASE, BEAT_S)):
            if time.monotonic() - began_s > self._longest_s:
                hold.overdue = True
                hold.stop("stopping")
                if not ended.wait(self._grace_s):
                    self.stuck.set()
                return
            try:
                lease = self._store.extend(job, self._clock())
                self._vitals.beat(self.owner, self._lane, self._clock())
            except StoreBroken:
                log.exception("the lease of job %d could not be extended", job.id)
                continue
            if lease == "superseded":
                hold.stop("superseded")
            elif lease == "lost":
                hold.stop("stopping")
                return

    def _finish(self, job: Job, done: Done) -> str:
        kept = self._store.finish(
            job,
            done.state,
            redact(done.result),
            self._clock(),
            follow=done.follow,
            supersede=done.supersede,
        )
        return done.state if kept else "lost"

    def _ended_early(self, job: Job, hold: Hold, error: Exception) -> str:
        """Say what becomes of a job whose work raised: given back, tried again or failed."""
        now_s = self._clock()
        if hold.reason == "stopping" and not hold.overdue:
            return "given back" if self._store.give_back(job, now_s) else "lost"
        told = redact(f"{type(error).__name__}: {error}")
        state: State | None
        if isinstance(error, _PERMANENT):
            state = self._store.give_up(job, told, now_s)
        elif isinstance(error, _PASSING):
            wait_s = backoff_s(job.delays + 1)
            if isinstance(error, RateLimited):
                wait_s = max(wait_s, error.retry_at.timestamp() - now_s)
            state = self._store.put_off(job, told, now_s + wait_s, now_s)
        else:
            state = self._store.retry(job, told, now_s + backoff_s(job.attempt), now_s)
        return state or "lost"
