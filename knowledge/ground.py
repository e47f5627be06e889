"""The ground that a finding stands on, and how much of it is left under another. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from math import prod

from knowledge.cards import Finding

FRESH_DAYS = 90  # older findings are tried again: drivers, servers and models have moved on
# A change whose share of time grew beyond this is another case than it was: by a quarter, and a
# hundredth of all time, which profiles differ by anyway.
GROWN, GROWN_BY = 1.25, 0.01
_ON = " on "


class Difference(StrEnum):
    """In what a finding's ground differs from the one at hand."""

    STACK = "stack"
    WORKLOAD = "workload"
    HARDWARE = "hardware"
    VERSIONS = "versions"
    RELEASE = "release"  # another version of fvec may write the change otherwise
    CODE = "code"  # of the model that is changed
    AGE = "age"
    SETTING = "setting"  # other accepted changes were in place
    SHARE = "share"


# How much a finding still says about the expected gain under each difference: judgement, not
# measurement, and all that hangs on it is the order in which things are tried.
_KEPT = {
    Difference.STACK: 0.25,
    Difference.WORKLOAD: 0.5,
    Difference.HARDWARE: 0.5,
    Difference.VERSIONS: 0.5,
    Difference.RELEASE: 0.7,
    Difference.CODE: 0.7,
    Difference.SETTING: 0.7,
    Difference.SHARE: 0.7,
}
ELSEWHERE = {Difference.STACK, Difference.WORKLOAD, Difference.HARDWARE}


@dataclass(frozen=True, slots=True)
class Ground:
    """What a finding was made on, or would be made on today."""

    stack: str
    workload: str  # fingerprint of model and traffic shape
    hardware: str
    versions: Mapping[str, str]  # by tool name
    today: date
    on_top: frozenset[str] = field(default_factory=frozenset)  # accepted changes in place
    fvec: str = ""  # version of the bot
    code: Mapping[str, str] = field(default_factory=dict)  # digest by model, as the run began


def change_name(card: str, model: str) -> str:
    """Return the name of a card's change of one model, as `on_top` and `together` hold it."""
    return f"{card}{_ON}{model}"


def split_change(name: str) -> tuple[str, str]:
    """Return card and model of a change's name; a card's id holds no space."""
    card, _, model = name.partition(_ON)
    return card, model


def differences(
    finding: Finding, ground: Ground, share: float | None = None
) -> dict[Difference, str]:
    """Return in what the finding's ground differs from `ground`, each told in a few words.

    `share` is the part of all time that the change touches now. Versions are compared by their
    first two numbers, where both name the tool. Code that was rewritten can save its share of
    the time and no more: a share that grew by a quarter is a difference, a smaller one is none.
    """
    found: dict[Difference, str] = {}
    if finding.stack != ground.stack:
        found[Difference.STACK] = f"on {finding.stack}"
    if finding.workload != ground.workload:
        found[Difference.WORKLOAD] = f"under another traffic ({finding.workload or 'unnamed'})"
    if finding.hardware != ground.hardware:
        found[Difference.HARDWARE] = f"on {finding.hardware}"
    moved = _moved(finding.versions, ground.versions)
    if moved:
        found[Difference.VERSIONS] = ", ".join(moved)
    if finding.fvec != ground.fvec:
        found[Difference.RELEASE] = f"by fvec {finding.fvec or 'of an unknown version'}"
    rewritten = _rewritten(finding, ground)
    if rewritten:
        found[Difference.CODE] = f"of other code of {', '.join(rewritten)}"
    days = (ground.today - finding.date).days
    if days >= FRESH_DAYS:
        found[Difference.AGE] = f"{days} days old"
    if frozenset(finding.on_top) != ground.on_top:
        found[Difference.SETTING] = setting(finding)
    if share is not None and finding.share is not None and share > finding.share * GROWN + GROWN_BY:
        found[Difference.SHARE] = f"it was {finding.share:.1%} of the time and is {share:.1%} now"
    return found


def setting(finding: Finding) -> str:
    """Say which other changes were in place when the finding was made."""
    return f"on top of {', '.join(finding.on_top)}" if finding.on_top else "tried alone"


def weight(finding: Finding, ground: Ground, share: float | None = None) -> float:
    """Return how much the finding says about `ground`, 0 to 1.

    It halves every FRESH_DAYS, and is less for each difference of the ground.
    """
    found = differences(finding, ground, share)
    days = max(0, (ground.today - finding.date).days)
    return float(0.5 ** (days / FRESH_DAYS)) * prod(
        _KEPT.get(difference, 1.0) for difference in found
    )


def usable(finding: Finding, ground: Ground) -> bool:
    """Whether the finding can have been made: a date after today is no run's, and never ages."""
    return finding.date <= ground.today


def _rewritten(finding: Finding, ground: Ground) -> list[str]:
    """Return the models of the finding whose code is another, or was not written down."""
    changed = {split_change(name)[1] for name in finding.together} or {finding.model}
    return [
        model or "an unnamed model"
        for model in sorted(changed)
        if (not model and ground.code) or finding.code.get(model, "") != ground.code.get(model, "")
    ]


def _moved(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return [
        f"{name} {then[name]} then, {now[name]} now"
        for name in sorted(then.keys() & now.keys())
        if release(then[name]) != release(now[name])
    ]


def release(version: str) -> tuple[str, ...]:
    """Return the first two numbers of a version; what follows them are repairs."""
    return tuple(re.split(r"[.+-]", version.removeprefix("v"))[:2])
