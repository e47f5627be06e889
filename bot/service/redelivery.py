"""Deliveries that did not arrive, asked for again: GitHub itself never repeats one.

    GET  /app/hook/deliveries                      what GitHub tried, the newest first
    POST /app/hook/deliveries/{id}/attempts        try it again, under the same id

A delivery is one guid and may have had several attempts. It is asked for again where none of them
arrived, where we have not recorded it, and where our answer was not that it is of no use.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from pydantic import AwareDatetime, BaseModel, Field

from bot.github.api import Api, path_of
from bot.service.rounds import DAY_S, Rounds

PATH = "/app/hook/deliveries"
MARK = "redelivery"  # the time up to which attempts were looked at
POLL_S = 600.0
OVERLAP_S = 3600.0  # looked at again: an attempt is listed some time after it was made
YOUNG_S = 60.0  # an attempt that may not have ended yet
KEPT_BY_GITHUB_S = 3 * DAY_S
MOST_LISTED = 5_000
MOST_ASKED = 50  # in one poll
MOST_TRIES = 5  # of one delivery
_REFUSED = frozenset({400, 413, 415})  # our answer to what will be no better the next time
log = logging.getLogger(__name__)


class Attempt(BaseModel):
    """One attempt of GitHub's to deliver; a status of 0 is no answer."""

    id: int = Field(ge=1)
    guid: str = Field(min_length=1, max_length=100)
    delivered_at: AwareDatetime
    status_code: int

    @property
    def arrived(self) -> bool:
        """Say whether we took it."""
        return 200 <= self.status_code < 300


def poll(api: Api, rounds: Rounds, now_s: float) -> int:
    """Ask for what did not arrive since the last poll, at most `MOST_ASKED`; returns how many.

    `api` makes requests as the App. Raises `GitHubError`; the next poll then begins where this
    one did.
    """
    since_s = max(rounds.mark(MARK) - OVERLAP_S, now_s - KEPT_BY_GITHUB_S)
    wanted = lost(_attempts(api, since_s), now_s)
    received = rounds.received(attempt.guid for attempt in wanted)
    asked = 0
    for attempt in wanted:
        if attempt.guid in received:
            continue
        if asked == MOST_ASKED:
            log.warning("more deliveries are lost than are asked for at once: more in %g s", POLL_S)
            return asked  # the mark stays
        if rounds.try_again(attempt.guid, MOST_TRIES, now_s):
            api.do("POST", path_of("app/hook/deliveries", str(attempt.id), "attempts"))
            asked += 1
    rounds.set_mark(MARK, now_s)
    return asked


def lost(attempts: Iterable[Attempt], now_s: float) -> list[Attempt]:
    """Return the newest attempt of each delivery that did not arrive, the oldest first. Pure."""
    newest: dict[str, Attempt] = {}
    arrived: set[str] = set()
    for attempt in sorted(attempts, key=lambda one: (one.delivered_at, one.id)):
        newest[attempt.guid] = attempt
        if attempt.arrived:
            arrived.add(attempt.guid)
    return [
        attempt
        for guid, attempt in newest.items()
        if guid not in arrived
        and attempt.status_code not in _REFUSED
        and attempt.delivered_at.timestamp() <= now_s - YOUNG_S
    ]


def _attempts(api: Api, since_s: float) -> Iterator[Attempt]:
    """Yield attempts, the newest first, back to a time, or to what was listed already."""
    seen: set[int] = set()
    for attempt in api.pages(PATH, Attempt):
        known = attempt.id in seen
        if known or attempt.delivered_at.timestamp() < since_s or len(seen) == MOST_LISTED:
            return
        seen.add(attempt.id)
        yield attempt
