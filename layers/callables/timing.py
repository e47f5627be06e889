"""Timed calls of both arms: pairs inside launches, fresh content in every call.

A launch starts both processes afresh. Inside it the arms are called on the same inputs one after
the other in random order, by the parent's clock; a pair is the sum over its calls. Every timed
output is compared. While one arm is called the other one must not use any CPU time, and what an
arm uses in its own turn but outside go and done may not exceed the reference's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from layers.base import ChangeClass
from layers.callables.cell import Answer
from layers.callables.compare import Answers, Judge, gate
from layers.callables.maker import Maker, ours
from layers.callables.process import Process
from layers.callables.station import Record
from layers.evidence import Gate, GateResult, Pair

Arm: TypeAlias = Literal["baseline", "candidate"]
ARMS: tuple[Arm, Arm] = ("baseline", "candidate")

PAIR_S = 0.04  # of each arm, about
LEAST_CALLS, MOST_CALLS = 3, 32  # of each arm in a pair
WARM_UP = 3
OUTSIDE_S, OUTSIDE_SHARE = 40e-6, 0.10  # CPU of a call outside it, beyond the reference's
IDLE_S, IDLE_SHARE = 20e-6, 0.05


@dataclass(slots=True)
class Turn:
    """One timed call, with the CPU time of its arm and of the other one around it."""

    answer: Answer
    outside_s: float  # of this arm, in its turn but outside go and done
    idle_s: float  # of the other arm meanwhile


@dataclass(slots=True)
class Outside:
    """CPU seconds of the candidate's calls in one launch, call by call."""

    inside_s: list[float] = field(default_factory=list)
    around_s: list[float] = field(default_factory=list)  # beyond the reference's, same inputs
    idle_s: list[float] = field(default_factory=list)  # while the other one was called, as well


def calls_per_pair(call_s: float) -> int:
    """Return how many calls of each arm make a pair, from the reference's time of one."""
    return int(min(MOST_CALLS, max(LEAST_CALLS, PAIR_S / call_s)))


class Launch:
    """Both arms afresh, loaded, with newly drawn state; measures pairs."""

    def __init__(
        self,
        arms: dict[Arm, Process],
        maker: Maker,
        rng: np.random.Generator,
        change_class: ChangeClass,
        record: Record,
    ) -> None:
        """Hand the state over and warm both arms up."""
        self._arms, self._maker, self._rng = arms, maker, rng
        self._record = record
        self._judge = Judge(change_class)
        self.outside = Outside()
        if maker.settings.state:
            state = maker.state()
            for arm in ARMS:
                arms[arm].put(state)
        for _ in range(WARM_UP):
            self._both(maker.varying())
        self.outside = Outside()

    def pair(self, launch: int, number: int, calls: int) -> Pair:
        """Measure one pair on inputs that no call has seen before."""
        bodies = [self._maker.varying() for _ in range(calls)]
        turns = [self._both(body) for body in bodies]
        busy = {arm: sum(turn[arm].answer.busy_s for turn in turns) for arm in ARMS}
        cpu = {arm: sum(turn[arm].answer.cpu_s for turn in turns) for arm in ARMS}
        return Pair(
            launch=launch,
            pair=number,
            throughput_ratio=busy["baseline"] / busy["candidate"],
            cpu_ratio=max(cpu["baseline"], 1e-9) / max(cpu["candidate"], 1e-9),
        )

    @property
    def compared(self) -> int:
        """How many timed calls were compared."""
        return self._judge.calls

    def _both(self, body: bytes) -> dict[Arm, Turn]:
        """Call both arms on the same inputs, in random order, and compare."""
        first, second = self._rng.permutation(2).tolist()
        found: dict[Arm, Turn] = {}
        for index in (first, second):
            arm, other = ARMS[index], ARMS[1 - index]
            found[arm] = self._turn(self._arms[arm], self._arms[other], body)
        old, new = found["baseline"], found["candidate"]
        self.outside.inside_s.append(new.answer.cpu_s)
        self.outside.around_s.append(new.outside_s - old.outside_s)
        self.outside.idle_s.append(old.idle_s - new.idle_s)
        self._compare(found["baseline"].answer, found["candidate"].answer)
        return found

    def _turn(self, process: Process, other: Process, body: bytes) -> Turn:
        """Call one arm."""
        idle, own = other.cpu_s(), process.rest()[0]
        process.put(body)
        answer = process.call()
        used = process.rest()[0] - own
        return Turn(answer, used - answer.cpu_s, other.cpu_s() - idle)

    def _compare(self, old: Answer, new: Answer) -> None:
        """Compare the outputs of one timed call."""
        if old.raised is not None or new.raised is not None:
            if old.raised is None:
                detail = f"in a timed call: {new.raised}"
                self._record.take(gate("timed outputs", GateResult.FAIL, "raises", detail))
            elif new.raised is None:
                detail = f"in a timed call: the reference raises {old.raised}"
                self._record.take(gate("timed outputs", GateResult.FAIL, "does_not_raise", detail))
            return
        if old.body == new.body:
            self._judge.calls += 1
            return
        failure = self._judge.add(
            "a timed call", Answers.of(old.outputs()), Answers.of(new.outputs())
        )
        if failure:
            self._record.take(
                gate("timed outputs", GateResult.FAIL, failure.reason, failure.detail)
            )


def outside_gate(launches: Sequence[Outside]) -> Gate:
    """Refuse work that the clock of the calls did not see, over all launches so far.

    Every call is held against the reference's on the same inputs. What is three times the
    allowance fails at once; less must show in two launches.
    """
    around = np.concatenate([launch.around_s for launch in launches])
    idle_s = float(np.mean(np.concatenate([launch.idle_s for launch in launches])))
    inside_s = float(np.mean(np.concatenate([launch.inside_s for launch in launches])))
    usual_s, mean_s = float(np.median(around)), float(np.mean(around))
    detail = (
        f"{1e6 * usual_s:.0f} us (mean {1e6 * mean_s:.0f}) a call around it and "
        f"{1e6 * idle_s:.0f} us while it was not called, beyond the reference's; "
        f"{1e6 * inside_s:.0f} us inside"
    )
    excess = max(
        usual_s / (OUTSIDE_S + OUTSIDE_SHARE * inside_s),
        mean_s / (2 * (OUTSIDE_S + OUTSIDE_SHARE * inside_s)),
        idle_s / (IDLE_S + IDLE_SHARE * inside_s),
    )
    if excess > (1.0 if len(launches) > 1 else 3.0):
        return gate("idle", GateResult.FAIL, "works_outside_the_call", detail)
    return gate("idle", GateResult.PASS, "idle_outside_the_call", detail)


# --- memory -----------------------------------------------------------------------------------

MEMORY_CALLS = 10  # of each kind of repeat
MEMORY_RATIO = 1.3


def memory_gate(
    arms: dict[Arm, Process],
    maker: Maker,
    ratio_ci: Callable[[Sequence[float]], tuple[float, float]],
) -> Gate:
    """Time identical inputs again, in the same objects and in new ones, against fresh ones.

    Fails where the candidate's repeats are faster by an interval above 1.3 and the reference's
    are not: on fresh content a memory is no speed-up. `ratio_ci` gives the interval of ratios.
    """
    for what, resend in (("in new objects", True), ("in the same objects", False)):
        for _ in range(2):  # a busy machine makes one such series in many: it must show twice
            found = _repeats(arms, maker, resend=resend)
            low, high = ratio_ci(found["candidate"])
            detail = (
                f"the same content {what} is {low:.2f} to {high:.2f} times as fast as fresh content"
            )
            if low <= MEMORY_RATIO or ratio_ci(found["baseline"])[0] > MEMORY_RATIO:
                break
        else:
            return gate("memory", GateResult.FAIL, "answers_from_memory", detail)
    return gate("memory", GateResult.PASS, "not_from_memory", detail)


def _repeats(arms: dict[Arm, Process], maker: Maker, *, resend: bool) -> dict[Arm, list[float]]:
    """Return the ratios of a fresh call's time to that of the same call again, by arm."""
    ratios: dict[Arm, list[float]] = {arm: [] for arm in ARMS}
    for _ in range(MEMORY_CALLS):
        body = maker.varying()
        fresh = {arm: _timed(arms[arm], body) for arm in ARMS}
        again = {arm: _timed(arms[arm], body if resend else None) for arm in ARMS}
        for arm in ARMS:
            ratios[arm].append(fresh[arm] / again[arm])
    return ratios


def _timed(process: Process, body: bytes | None) -> float:
    if body is not None:
        process.put(body)
    return process.call().busy_s


def harness_s(reference: Process, calls: int = 15) -> float:
    """Return the median time of a call that only copies its last outputs out again."""
    return float(np.median([ours(lambda: reference.call(no_op=True)).busy_s for _ in range(calls)]))
