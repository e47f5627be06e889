"""How each kind of job is done: events and ticks are decided about, the rest is `bot.jobs`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bot.github.client import connect
from bot.github.errors import TRANSIENT, GitHubError, NotFound
from bot.github.transport import Remote
from bot.jobs import board, decide, helping, runner
from bot.jobs.context import Context
from bot.service import work
from bot.service.rounds import Rounds
from bot.service.store import TELL
from bot.service.worker import Done
from bot.wake.policy import Decision, Sleep, Wake
from layers.manifest import SandboxMode

if TYPE_CHECKING:
    from bot.github.auth import Credentials
    from bot.github.repository import Repository
    from bot.service.store import Job, Store
    from bot.service.worker import Stopping
    from bot.wake.events import Event
    from bot.wake.jobs import JobSpec

log = logging.getLogger(__name__)
HEARD: Final = "eyes"  # the reaction to a command that is going to be followed


class Dispatcher:
    """Does the jobs of one worker; connections are its own."""

    def __init__(
        self,
        store: Store,
        credentials: Credentials,
        folder: Path,
        *,
        server_url: str,
        throttle: bool = True,
        clock: Callable[[], float] = time.time,
        fvec: Sequence[str] = (),
        weakest: SandboxMode = SandboxMode.STRICT,
    ) -> None:
        """Work in `folder`; git speaks to `server_url`; `fvec` is the program that measures.

        `weakest` is the weakest sandbox that a repository's manifest may name.
        """
        self._store, self._rounds = store, Rounds(store.database)
        self._credentials, self._client = credentials, connect(credentials, throttle=throttle)
        self._folder, self._server_url = folder, server_url.rstrip("/")
        self._clock, self._fvec, self._weakest = clock, fvec, weakest

    def __call__(self, job: Job, stopping: Stopping) -> Done:
        """Do one job. Raises whatever the work raises: the worker decides what that means."""
        if job.kind == "react":
            return self._react(work.reaction_of(job.payload))
        if job.kind == "decide":
            return self._decide(work.event_of(job.payload))
        if job.kind == "tick":
            return self._tick(work.tick_of(job.payload))
        if job.kind == TELL:
            return self._tell(work.loss_of(job.payload))
        return self._perform(job, work.spec_of(job.payload), stopping)

    def _react(self, reaction: work.Reaction) -> Done:
        repository = self._client.repository(reaction.repository)
        repository.react(reaction.comment_id, reaction.content)
        return Done("done", f"reacted: {reaction.content}")

    def _decide(self, event: Event) -> Done:
        repository = self._client.repository(event.repository)
        decision = decide.decide(event, self._around(repository))
        try:
            decide.answer(event, decision, repository)
            if isinstance(decision, Wake) and event.comment_id is not None:
                repository.react(event.comment_id, HEARD)
        except NotFound:  # its author has taken it back
            return Done("done", "the comment is gone: nothing follows from it")
        if isinstance(decision, Sleep) and decision.held:
            _say(repository, decision.why)
        return _decided(decision)

    def _tick(self, tick: work.Tick) -> Done:
        try:
            repository = self._client.repository(tick.repository)
            decision = decide.decide_tick(self._around(repository), installation=tick.installation)
        except NotFound as error:
            self._rounds.forget(tick.repository)
            return Done("done", f"ticked no more: {error.message}")
        if isinstance(decision, Sleep):
            _say(repository, decision.why)
        return _decided(decision)

    def _tell(self, loss: work.Loss) -> Done:
        """Tell of a job that was given up, where people wait for it."""
        told = f"given up: {loss.why}"
        if loss.kind != "decide":
            context = self._context(work.spec_of(loss.payload), loss.job_id, loss.created_s)
            runner.given_up(context, told)
            return Done("done", told)
        event = work.event_of(loss.payload)
        repository = self._client.repository(event.repository)
        if event.comment_id is not None:
            why = f"{told.partition(chr(10))[0]}; give the command again"
            helping.refuse(repository, event.number, event.comment_id, why)
        else:
            _say(repository, f"an event ({event.kind}) came to nothing: {told}")
        return Done("done", told)

    def _perform(self, job: Job, spec: JobSpec, stopping: Stopping) -> Done:
        context = self._context(spec, job.id, job.created_s, stopping)
        result = runner.perform(context)
        return Done(result.state, result.summary)

    def _context(
        self, spec: JobSpec, job_id: int, created_s: float, stopping: Stopping = lambda: None
    ) -> Context:
        return Context(
            spec=spec,
            client=self._client,
            repository=self._client.repository(spec.repository),
            remote=Remote(f"{self._server_url}/{spec.repository}.git", self._credentials),
            work=self._folder,
            attempt_of=f"{job_id}-{created_s:.0f}",
            stopping=stopping,
            clock=self._now,
            fvec=self._fvec,
            weakest=self._weakest,
        )

    def _around(self, repository: Repository) -> decide.Surroundings:
        return decide.Surroundings(
            client=self._client,
            repository=repository,
            now=self._now(),
            live_jobs=self._store.live_keys(),
        )

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)


def _say(repository: Repository, why: str) -> None:
    """Show on the dashboard why nothing follows; a repository without issues has none."""
    try:
        board.say(repository, why)
    except TRANSIENT:
        raise
    except GitHubError as error:
        log.info("not told in %s: %s", repository.full_name, error.message)


def _decided(decision: Decision) -> Done:
    if isinstance(decision, Wake):
        follow = [work.of_spec(decision.spec, decision.not_before.timestamp())]
        if decision.freshen:
            follow.append(work.of_spec(decision.freshening(), 0.0))
        return Done("done", decision.why, tuple(follow), decision.supersedes)
    return Done("done", decision.why)
