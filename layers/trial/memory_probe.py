"""Does a candidate answer a repeated request from memory? Both arms' times, side by side. Pure.

Requests that no server has seen are sent once and then again, under load and mixed with others
(`layers.trial.load_probe`). Second answers are a little faster anywhere (caches of the processor);
a candidate's that are faster by clearly more than the baseline's own come from a memo of requests,
which recorded traffic would reward.

The requests of a round share what else the machine did while an arm was asked: firsts come before
repeats, so load that ends in between looks like a memo. No single round accuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from layers.evidence import Gate, GateResult

REQUESTS = 48  # of one round
REPEATS = 2
ROUNDS = 6  # at most: a noisy machine needs more than two to decide
MARGIN = 1.15  # a repeat effect that is this much larger than the baseline's is no memo yet
LEVEL = 0.001  # of accusing an honest candidate, one-sided, in one round
LIMIT = 1.4  # a repeat effect that is surely smaller than this, over the baseline's, is none
SURE = 0.03  # how sure, one-sided, in each of so many rounds
LEAST = 10  # requests: among fewer, no exact test of that level can accuse anybody (2**-n)


@dataclass(slots=True)
class Timings:
    """Seconds from send to answer by arm: one row per request, the first answer, then repeats."""

    taken_s: dict[str, list[list[float]]] = field(
        default_factory=lambda: {"baseline": [], "candidate": []}
    )

    def add(self, rows: Mapping[str, list[float]]) -> None:
        """Keep one request's times of both arms."""
        for arm, row in rows.items():
            self.taken_s[arm].append(row)

    @classmethod
    def joined(cls, rounds: Sequence[Timings]) -> Timings:
        """Return the times of several rounds as one."""
        made = cls()
        for one in rounds:
            for arm, rows in one.taken_s.items():
                made.taken_s[arm] += rows
        return made

    def __len__(self) -> int:
        return len(self.taken_s["baseline"])

    def effects(self, arm: str) -> NDArray[np.float64]:
        """Return float64[requests]: log of first over typical repeat, above 0 where repeats gain."""
        taken_s = np.asarray(self.taken_s[arm], dtype=np.float64)
        logs = np.log(taken_s.reshape(len(self.taken_s[arm]), 1 + REPEATS))
        effects: NDArray[np.float64] = logs[:, 0] - logs[:, 1:].mean(axis=1)
        return effects


def of_rounds(rounds: Sequence[Timings], wanted: int = 0) -> Gate:
    """Return the gate of all rounds; it fails where it would without any one of them, too.

    `wanted` requests were to be new in each. What one round alone shows is undecided.
    """
    found = gate(Timings.joined(rounds), wanted)
    if found.result is not GateResult.FAIL:
        return found
    for number in range(len(rounds)):
        without = [one for other, one in enumerate(rounds) if other != number]
        if gate(Timings.joined(without), wanted).result is not GateResult.FAIL:
            detail = f"{found.detail}; without round {number + 1} of {len(rounds)} that is not sure"
            return _gate(GateResult.INCONCLUSIVE, "memory_undecided", detail)
    return found


def gate(timings: Timings, wanted: int = 0) -> Gate:
    """Fail where the candidate's repeats gain more than the baseline's, beyond margin and doubt.

    Wilcoxon's signed-rank test, exact, of log(first/repeat) paired by request: a preempted request
    moves one rank, not a mean. Undecided where so few of `wanted` requests were new and answered
    that nothing could be found, and where the times are too noisy to rule a memo out. Reasons:
    answers_from_memory, no_memory_seen, requests_not_new, memory_undecided, memory_not_probed.
    """
    if len(timings) < min(wanted, LEAST):
        detail = f"{len(timings)} requests could be made new and were answered; {LEAST} are needed"
        return _gate(GateResult.INCONCLUSIVE, "requests_not_new", detail)
    difference = timings.effects("candidate") - timings.effects("baseline")
    if not difference.size and not wanted:
        return _gate(GateResult.PASS, "memory_not_probed", "0 requests")
    beyond = difference - np.log(MARGIN)
    doubt = float(stats.wilcoxon(beyond, alternative="greater", method="exact").pvalue)
    old, new = (float(np.exp(np.median(timings.effects(arm)))) for arm in ("baseline", "candidate"))
    detail = (
        f"repeats are {new:.2f} times as fast as firsts, the baseline's {old:.2f} times "
        f"(medians of {difference.size} requests; p = {doubt:.2g})"
    )
    if doubt < LEVEL:
        return _gate(GateResult.FAIL, "answers_from_memory", detail)
    small = float(
        stats.wilcoxon(difference - np.log(LIMIT), alternative="less", method="exact").pvalue
    )
    if small > SURE:
        detail += f"; that it is none is not sure (p = {small:.2g})"
        return _gate(GateResult.INCONCLUSIVE, "memory_undecided", detail)
    return _gate(GateResult.PASS, "no_memory_seen", detail)


def _gate(result: GateResult, reason: str, detail: str) -> Gate:
    return Gate(name="memory", result=result, reason=reason, detail=detail)
