"""What is owed by itself, and until when it rests: the cooldown, longer after what failed. Pure.

Nothing that had to wait is written down: what happened since the last analysis says what is owed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from bot.render.text import one_line
from bot.wake import hours, versions
from bot.wake.facts import Attempt, Facts, LastAnalysis, Layers
from layers.base import LayerName

if TYPE_CHECKING:
    from layers.manifest import BotSection

MOST_TOLD = 3  # versions that a reason names
FIRST_BACKOFF = timedelta(hours=1)  # after an analysis that failed, where no cooldown is longer
LONGEST_BACKOFF = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class Due:
    """Why an analysis is due by itself, and of which layers; empty: all."""

    why: str
    layers: Layers = ()


def first(repository: str, policy: BotSection, facts: Facts) -> Due | str:
    """Return the first reason why an analysis is due by itself, or in words why there is none.

    It is about all layers where any of the reasons is.
    """
    last = facts.last_analysis
    if last is None:
        return Due("there is no analysis yet")
    aged = _aged(repository, policy, facts, last)
    reasons = (
        _release_owed(policy, facts, last),
        _merge_owed(facts),
        _moved(facts),
        _held_back(policy, facts),
        aged if isinstance(aged, Due) else None,
    )
    found = [due for due in reasons if due is not None]
    if not found:
        return aged
    return found[0] if all(due.layers for due in found) else Due(found[0].why)


def _release_owed(policy: BotSection, facts: Facts, last: LastAnalysis) -> Due | None:
    release = facts.release
    if release is None or not policy.releases or release.at <= last.since:
        return None
    analysed = last.sha in (release.sha, facts.head_sha)
    return None if analysed else Due(published(release.tag))


def _merge_owed(facts: Facts) -> Due | None:
    merge = facts.merge
    if merge is None or LayerName.CONFIG not in facts.layers:
        return None
    known = any(
        run.sha == facts.head_sha or run.since >= merge.at
        for run in about(facts, (LayerName.CONFIG,))
    )
    return None if known else Due(merged(merge.number), (LayerName.CONFIG,))


def _moved(facts: Facts) -> Due | None:
    told = versions_moved(facts)
    return Due(told) if told else None


def _held_back(policy: BotSection, facts: Facts) -> Due | None:
    number = facts.awaiting
    if not number or facts.open_pulls >= policy.max_open_pull_requests:
        return None
    changes = "1 accepted change was" if number == 1 else f"{number} accepted changes were"
    return Due(f"{changes} held back, and there is room now")


def _aged(repository: str, policy: BotSection, facts: Facts, last: LastAnalysis) -> Due | str:
    """Return that the last analysis is stale, or why it is not; for its age alone it has to serve."""
    of = f"the last analysis is from {hours.told(last.at)}"  # the same words at every tick
    if policy.stale_after_days is None:
        return f"{of}; the manifest says `stale_after_days: null`"
    jitter = hours.fraction(facts.seed, repository, last.sha) * policy.jitter_minutes
    due = last.at + timedelta(days=policy.stale_after_days, minutes=jitter)
    if due > facts.now:
        return f"{of}; stale at {hours.told(due)}"
    if policy.serving is not None and facts.still_serves is None:
        return (
            f"{of}: it is stale, but whether this stack still serves is not known: `bot.serving` "
            "gave no answer, or cannot be run here"
        )
    return Due(f"{of}: it is stale")


def about(facts: Facts, layers: Layers) -> list[LastAnalysis]:
    """Return the last analyses that were about some layers, or about all."""
    whole = [facts.last_analysis] if facts.last_analysis is not None else []
    return [*whole, *(run for run in facts.partial if layers and set(layers) <= set(run.layers))]


def published(tag: str) -> str:
    """Return the reason that a release is."""
    return f"release {one_line(tag, 100)} was published"


def merged(number: int) -> str:
    """Return the reason that a merged change of ours is."""
    return f"pull request {number} of ours was merged: code moves the best configuration"


def versions_moved(facts: Facts) -> str | None:
    """Return the reason that the head names other versions than the last analysis."""
    last = facts.last_analysis
    if facts.versions is None or last is None or last.versions is None:
        return None
    moved = [one_line(line, 200) for line in versions.moved(last.versions, facts.versions)]
    more = f" and {len(moved) - MOST_TOLD} more" if len(moved) > MOST_TOLD else ""
    return f"{', '.join(moved[:MOST_TOLD])}{more} since the last analysis" if moved else None


def rested(policy: BotSection, facts: Facts) -> datetime:
    """Return when the cooldown ends: after the last analysis, or after one that failed."""
    cooldown = timedelta(hours=policy.cooldown_hours)
    ended = [run.at + cooldown for run in (*about(facts, ()), *facts.partial)]
    if facts.attempt is not None:
        ended.append(_tried_again(policy, facts.attempt, facts.head_sha))
    return max(ended, default=facts.now)


def _tried_again(policy: BotSection, attempt: Attempt, head: str) -> datetime:
    """Return when the cooldown after a failure ends: twice as long each time at the same commit."""
    cooldown = timedelta(hours=policy.cooldown_hours)
    if attempt.sha != head:
        return attempt.at + cooldown
    first = max(cooldown, FIRST_BACKOFF)
    longest = max(cooldown, LONGEST_BACKOFF)
    return attempt.at + min(first * (1 << min(attempt.failures - 1, 16)), longest)


def resting(policy: BotSection, facts: Facts) -> str:
    """Say which cooldown holds back an analysis, and until when."""
    rest, attempt = rested(policy, facts), facts.attempt
    if attempt is not None and _tried_again(policy, attempt, facts.head_sha) == rest:
        failed = "the last one failed"
        if attempt.failures > 1 and attempt.sha == facts.head_sha:
            failed = f"the last {attempt.failures} at this commit failed"
        return f"{failed}, and the next starts at {hours.told(rest)} or later"
    return f"the cooldown after the last analysis ends at {hours.told(rest)}"
