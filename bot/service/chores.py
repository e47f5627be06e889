"""What the service does unasked: ticks, redelivery, forgetting, keeping its disk in order."""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from bot.github.api import Api
from bot.jobs import checkouts, notes
from bot.service import redelivery, work
from bot.service.rounds import DAY_S, Rounds
from bot.service.store import Store

LOOK_S = 30.0
PRUNE_S = 3600.0
OURS = ("fvec-git-*", "fvec-serving-*")  # folders for a moment, which a kill leaves behind
LEFT_S = 2 * DAY_S  # longer than any job takes
log = logging.getLogger(__name__)


class Chores:
    """The chores of one process; where several share a database, each is done by one of them."""

    def __init__(
        self,
        store: Store,
        app_api: Api | None,
        folder: Path,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Without `app_api`, which asks as a GitHub App, lost deliveries are not asked for.

        `folder` is where jobs are done.
        """
        self._store, self._api, self._folder, self._clock = store, app_api, folder, clock
        self._rounds = Rounds(store.database)

    def run(self, stop: threading.Event) -> None:
        """Do what is due, again and again, until `stop` is set."""
        while not stop.is_set():
            for chore in (self.tick, self.prune, self.redeliver, self.tidy):
                try:
                    chore()
                except Exception:
                    log.exception("%s is put off", chore.__name__)
            stop.wait(LOOK_S)

    def tick(self) -> None:
        """Queue a job for each repository whose time has come."""
        now_s = self._clock()
        due = self._rounds.due(now_s)
        if due:
            ticks = [work.of_tick(work.Tick(name, installation)) for name, installation in due]
            self._store.enqueue(ticks, now_s)
            self._rounds.ticked([name for name, _ in due], now_s)

    def prune(self) -> None:
        """Forget what is old, once an hour."""
        if self._rounds.take_turn("prune", PRUNE_S, self._clock()):
            self._rounds.prune(self._clock())

    def redeliver(self) -> None:
        """Ask GitHub for deliveries that did not arrive."""
        now_s = self._clock()
        if self._api and self._rounds.take_turn("redelivery poll", redelivery.POLL_S, now_s):
            asked = redelivery.poll(self._api, self._rounds, now_s)
            if asked:
                log.info("asked GitHub for %d deliveries that did not arrive", asked)

    def tidy(self) -> None:
        """Put the folder of one repository in order, each once a day; and the temporary folder."""
        now_s = self._clock()
        if self._rounds.take_turn("tidy", DAY_S, now_s):
            for left in _left(now_s):
                shutil.rmtree(left, ignore_errors=True)
        for home in sorted(self._folder.glob("*+*")):
            if self._rounds.take_turn(f"tidy {home.name}", DAY_S, now_s):
                notes.prune_all(home)
                checkouts.tidy(home)
                return  # the others at the next looks: packing takes its time


def _left(now_s: float) -> Iterator[Path]:
    """Yield our temporary folders that no live job can still use."""
    for pattern in OURS:
        for folder in Path(tempfile.gettempdir()).glob(pattern):
            with suppress(OSError):
                if now_s - folder.stat().st_mtime > LEFT_S:
                    yield folder
