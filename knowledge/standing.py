"""What a card's findings say about trying it on the ground at hand. Pure.

A finding never stands in for a measurement. It says what to try first, what not to try again
now, and what to expect; whatever is tried passes every gate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import log, sqrt

from knowledge.cards import CookbookCard, Finding
from knowledge.ground import (
    ELSEWHERE,
    Difference,
    Ground,
    differences,
    setting,
    usable,
    weight,
)

REST_DAYS = 7  # an inconclusive try is not repeated sooner on the same ground: it cost all looks
OTHER_MODEL = 0.5  # of a finding's weight is kept for another model of the stack
BETWEEN_SD = 0.1  # of a gain from run to run beyond its interval: runs differ in more than noise
LEAST_PRIOR_SD = 0.1  # a card's range is a guess, however narrow
ALL_LOOKS = "last_look_reached"  # the reason of such a try; other reasons are the machine's
_Z95 = 1.96
ON_TOP_ONLY = "no_gain_on_top_of_others"  # taken out beside others: says nothing without them
# What was measured too little or lost: these refute a change across releases of fvec and changed
# code, as long as the share has not grown. Wrong outputs or a failed build may have been mended.
GAIN_REASONS = {
    ALL_LOOKS,
    ON_TOP_ONLY,
    "below_noise_floor",
    "boundary_out_of_reach",
    "gain_not_confirmed",
    "locally_slower",
    "slower",
}
_DECIDED = {"accepted", "rejected", "inconclusive"}


class State(StrEnum):
    """What findings say about one change on one ground."""

    UNTRIED = "untried"
    CONFIRMED = "accepted"
    REFUTED = "refuted"
    RESTING = "resting"  # inconclusive, and too recently
    OPEN = "open"  # inconclusive, and due again
    STALE = "stale"  # decided once, on ground that has moved since


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of one change on one ground, the finding that decides it, and why in one line."""

    state: State = State.UNTRIED
    finding: Finding | None = None
    why: str = ""

    @property
    def answered(self) -> bool:
        """Whether the change is not to be tried now."""
        return self.state in {State.REFUTED, State.RESTING}


@dataclass(frozen=True, slots=True)
class Expected:
    """The gain of the touched share that card and findings let expect, 1 - 1/speedup."""

    mean: float
    sd: float
    findings: int  # that had a gain with an interval
    weight: float  # of the findings in the mean, 0 to 1; the rest is the card's


def standing(
    card: CookbookCard, model: str, ground: Ground, share: float | None = None
) -> Standing:
    """Return what the findings of `card` say about trying it on `model` now.

    `share` is the part of all time that the change touches now, where that is known. Of the
    findings on this very ground the newest that was accepted or rejected decides, an inconclusive
    one only where it is newer than an acceptance, or alone. A failed try decides nothing, nor does
    one that measured several changes together. Where no finding is on this ground but some are of
    this stack, traffic and hardware, the change is stale: a hypothesis again, with the reason.
    """
    tried = [f for f in _alone(card, model, ground) if f.verdict in _DECIDED]
    moved = [(f, _moved(f, ground, card, share)) for f in tried]
    here = [(f, told) for f, told in moved if not told.keys() & ELSEWHERE]
    counting = [f for f, told in here if not told]
    current = [f for f in counting if frozenset(f.on_top) == ground.on_top] or counting
    if not current:
        return Standing(State.STALE, here[0][0], _stale(*here[0])) if here else Standing()
    newest = current[0]
    decided = next((f for f in current if f.verdict != "inconclusive"), newest)
    if decided.verdict == "rejected":
        return Standing(State.REFUTED, decided, _told(decided))
    if newest.verdict == "accepted":
        return Standing(State.CONFIRMED, newest, _told(newest))
    left = REST_DAYS - (ground.today - newest.date).days
    if left <= 0 or newest.reason != ALL_LOOKS:
        return Standing(State.OPEN, newest, _told(newest))
    told = f"{_told(newest)}; not again for {left} day{'s' if left > 1 else ''} on the same ground"
    return Standing(State.RESTING, newest, told)


def proven(card: CookbookCard, model: str, ground: Ground) -> Finding | None:
    """Return the acceptance that lets a change be measured again together with others, or None.

    It is the newest that decided on this ground, whatever else was in place then; of the same
    code of the model, changed by the same version of fvec.
    """
    for finding in _alone(card, model, ground):
        left = differences(finding, ground).keys() - {Difference.SETTING}
        if finding.verdict in _DECIDED and not left:
            return finding if finding.verdict == "accepted" else None
    return None


def refused_together(card: CookbookCard, changes: frozenset[str], ground: Ground) -> bool:
    """Whether these changes, as one candidate, were rejected on this ground, and not accepted since."""
    joint = (f for f in _newest_first(card, ground) if frozenset(f.together) == changes)
    decided = (f for f in joint if f.verdict in {"accepted", "rejected"})
    newest = next((f for f in decided if not _lasting(f, differences(f, ground))), None)
    return newest is not None and newest.verdict == "rejected"


def expected(
    card: CookbookCard,
    model: str,
    ground: Ground,
    *,
    gain: float | None = None,
    best: float | None = None,
    share: float | None = None,
) -> Expected:
    """Return the gain of the touched share to expect, from the card's range and its findings.

    `gain` and `best` are the range where a layer knows it better than the card does; `share` is
    as for `standing`. A normal mean: the card's expected gain with the width of its range as
    standard deviation, and each finding's end-to-end gain divided by its share of the time, with
    the precision of its interval and of the spread between runs, times `ground.weight`. No
    finding and no mean is below 0 or above the range's best. Findings of several changes
    together say nothing about one of them.
    """
    center = card.gain.expected if gain is None else gain
    limit = card.gain.best if best is None else best
    prior = 1 / max(LEAST_PRIOR_SD, limit - center) ** 2
    mass, total, count = prior, prior * center, 0
    for finding in _newest_first(card, ground):
        seen = _gain_of_share(finding)
        if seen is None or finding.together:
            continue
        own, sd = seen
        kept = 1.0 if finding.model in {"", model} else OTHER_MODEL
        precision = weight(finding, ground, share) * kept / (sd**2 + BETWEEN_SD**2)
        mass, count = mass + precision, count + 1
        total += precision * min(limit, max(0.0, own))
    mean = min(limit, max(0.0, total / mass))
    return Expected(mean, 1 / sqrt(mass), count, 1 - prior / mass)


def _gain_of_share(finding: Finding) -> tuple[float, float] | None:
    """Return 1 - 1/speedup of the touched share with its standard deviation, by the delta method."""
    if finding.gain is None or finding.ci is None or finding.share is None:
        return None
    sd = log(finding.ci[1] / finding.ci[0]) / (2 * _Z95) / finding.gain
    return (1 - 1 / finding.gain) / finding.share, sd / finding.share


def _newest_first(card: CookbookCard, ground: Ground) -> list[Finding]:
    found = (f for f in card.findings if usable(f, ground))
    return sorted(found, key=lambda f: f.date, reverse=True)


def _alone(card: CookbookCard, model: str, ground: Ground) -> list[Finding]:
    """Return the findings of one change on one model, newest first."""
    return [f for f in _newest_first(card, ground) if f.model in {"", model} and not f.together]


def _moved(
    finding: Finding, ground: Ground, card: CookbookCard, share: float | None
) -> Mapping[Difference, str]:
    """Return the differences that keep a finding from deciding.

    A rewrite saves its share of the time and no more: what was too little then is too little
    beside other accepted changes too, while the share has not grown. What a configuration does
    depends on where the bottleneck is, hence on what else was accepted; so does what was taken
    out beside others, whatever it is.
    """
    found = _lasting(finding, differences(finding, ground, share))
    everywhere = card.change_class != "config" and finding.reason != ON_TOP_ONLY
    if finding.verdict == "accepted":
        found.pop(Difference.SHARE, None)
    elif everywhere and None not in (share, finding.share):
        found.pop(Difference.SETTING, None)
    return found


def _lasting(finding: Finding, found: dict[Difference, str]) -> dict[Difference, str]:
    """Return the differences without those of the code, for a verdict that outlasts them."""
    if finding.verdict == "accepted" or finding.reason in GAIN_REASONS:
        outlasted = {Difference.RELEASE, Difference.CODE}
        return {name: told for name, told in found.items() if name not in outlasted}
    return found


def _stale(finding: Finding, moved: Mapping[Difference, str]) -> str:
    return f"{_told(finding)}, but that is stale: {'; '.join(moved.values())}"


def _told(finding: Finding) -> str:
    place = f" {setting(finding)}" if finding.on_top else ""
    return f"{finding.verdict} on {finding.date} at {finding.commit[:12]}{place} ({finding.reason})"
