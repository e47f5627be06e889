"""Quiet hours and jitter: when something may start. All moments are UTC; nothing reads a clock."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

DAY_MINUTES = 24 * 60
_STEPS = 2**20  # coarse enough that a fraction below 1 never rounds up to the whole


def quiet_until(moment: datetime, quiet: str | None) -> datetime | None:
    """Return when the quiet hours end that `moment` lies in, None outside them.

    `quiet` is `HH:MM-HH:MM` in UTC as `BotSection` checks it, over midnight too: the first minute
    is quiet, the last is not. `moment` is aware.
    """
    if quiet is None:
        return None
    start, end = _minutes(quiet)
    moment = moment.astimezone(UTC)
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    since = (moment - midnight) / timedelta(minutes=1)
    inside = start <= since < end if start < end else since >= start or since < end
    if not inside:
        return None
    return midnight + timedelta(minutes=end, days=1 if end <= since else 0)


def first_start(
    earliest: datetime, quiet: str | None, *, jitter_minutes: float = 0, share: float = 0
) -> datetime:
    """Return the first moment that is not quiet, `share` (0 to 1) of the jitter after `earliest`.

    What the quiet hours push back starts within the jitter after their end, not all at once.
    """
    start = earliest.astimezone(UTC) + timedelta(minutes=share * jitter_minutes)
    until = quiet_until(start, quiet)
    if quiet is None or until is None:
        return start
    quiet_start, quiet_end = _minutes(quiet)
    loud_minutes = (quiet_start - quiet_end) % DAY_MINUTES
    return until + timedelta(minutes=share * min(jitter_minutes, loud_minutes))


def fraction(*seeds: str) -> float:
    """Return a number in [0, 1) that the seeds alone determine, spread evenly."""
    digest = hashlib.sha256("\0".join(seeds).encode()).digest()
    return int.from_bytes(digest[:8], "big") % _STEPS / _STEPS


def told(moment: datetime) -> str:
    """Return a moment as the dashboard shows it: `2026-11-30 06:00 UTC`."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _minutes(quiet: str) -> tuple[int, int]:
    """Return start and end of quiet hours in minutes since midnight."""
    start, end = (
        60 * int(hour) + int(minute)
        for hour, _, minute in (time.partition(":") for time in quiet.split("-"))
    )
    return start, end
