"""How long a candidate and the end of a run take, by what this run's calibration took. Pure.

A launch of the calibration starts both arms and measures a look's pairs, so it knows the stack and
the machine: how slowly it starts, how long its blocks are. What is sent at the recorded rate takes
as long as the recording says.
"""

from __future__ import annotations

from dataclasses import dataclass

from layers.errors import InvalidInput, Location
from layers.measure.sustained import MIN_REQUESTS, Budget
from layers.trial.total import TAIL_REQUESTS
from layers.trial.verify import COMMIT_REQUESTS, CONFIRMING

FIRST_LOOK = 1  # launches; later looks take more, and only where the first decides nothing
ARMS = 2  # measured in turn, beside each other
PUBLISH_S = 20.0  # branches, plots, cards: nothing is served or measured


@dataclass(frozen=True, slots=True)
class Needs:
    """Seconds that parts of a run take here."""

    candidate_s: float  # one that is accepted at its first look
    reserved_s: float  # the total and the publishing, after the last candidate

    @property
    def sum_s(self) -> float:
        """Seconds that have to be left for another candidate to be begun."""
        return self.candidate_s + self.reserved_s


def needs(launch_s: float, rate: float, total: Budget) -> Needs:
    """Return what a run needs whose calibration took `launch_s` for a launch.

    `rate` is the recorded one, in requests per second; `total` is what the total may measure.
    """
    commit_s = ARMS * COMMIT_REQUESTS / rate
    windows_s = ARMS * total.windows * max(total.window_s, MIN_REQUESTS / rate)
    tail_s = ARMS * TAIL_REQUESTS / rate
    return Needs(
        candidate_s=launch_s * (FIRST_LOOK + CONFIRMING) + commit_s,
        reserved_s=launch_s + windows_s + tail_s + PUBLISH_S,
    )


def least_s(total: Budget) -> float:
    """Return seconds that every run takes that tries a candidate, whatever it serves."""
    return ARMS * total.windows * total.window_s + PUBLISH_S


def check(minutes: float, total: Budget, at: Location | None) -> None:
    """Raise InvalidInput for a budget that is spent before a candidate could be tried."""
    if minutes * 60 > least_s(total):
        return
    raise InvalidInput(
        f"a budget of {minutes:g} minutes is too small to try anything: the end of a run alone, "
        f"total and publishing, takes {least_s(total) / 60:.1f} minutes or more",
        at=at,
        hint="raise budget.minutes of the manifest, or --budget: with calibration and one candidate "
        "a run takes a quarter of an hour on a stack that starts in seconds",
    )


def told(minutes: float, spent_s: float, needed: Needs) -> str:
    """Say by numbers why no other candidate was begun."""
    return (
        f"{spent_s / 60:.1f} of {minutes:g} minutes are over, and by its calibration a candidate takes "
        f"{needed.candidate_s / 60:.1f} here, the total and the publishing {needed.reserved_s / 60:.1f}"
    )
