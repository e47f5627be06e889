"""Timed calls of both arms: pairs inside launches, fresh content in every call.

A launch starts both processes afresh. Inside it the arms are called on the same inputs one after
the other in random order, by the parent's clock; a pair is the sum over its calls. Every timed
output is compared. While one arm is called the other one must not use any CPU time, and what an
arm uses in its own turn but outside go and done, or in other processes, may not exceed the
reference's. What is tolerated of these is added to its time: nothing can be gained by it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from layers.base import ChangeClass
from layers.callables.audit import Sample
from layers.callables.cell import Answer
from layers.callables.codec import CodecError
from layers.callables.compare import Answers, Failure, Judge, gate
from layers.callables.maker import Drawn, Maker, drawn, ours
from layers.callables.process import Process
from layers.callables.station import Record
from layers.errors import InvalidInput
from layers.evidence import Gate, GateResult, Pair

Arm: TypeAlias = Literal["baseline", "candidate"]
ARMS: tuple[Arm, Arm] = ("baseline", "candidate")

PAIR_S = 0.04  # of each arm, about
LEAST_CALLS, MOST_CALLS = 3, 32  # of each arm in a pair
WARM_UP = 3
OUTSIDE_S, OUTSIDE_SHARE = 40e-6, 0.10  # CPU of a call outside it, beyond the reference's
IDLE_S, IDLE_SHARE = 20e-6, 0.05
OTHERS_S, OTHERS_SHARE = 3e-3, 0.05  # CPU of other processes in a launch, beyond the reference's
COMPANY_SHARE = 0.1  # of calls after which more threads or processes are there
SAMPLES = 2  # of a pair's calls, whose answers are audited


@dataclass(slots=True)
class Turn:
    """One timed call, with the CPU time of its arm and of the other one around it."""

    answer: Answer
    outside_s: float  # of this arm, in its turn but outside go and done
    idle_s: float  # of the other arm meanwhile
    threads: int  # of this arm once it has returned
    processes: int


@dataclass(slots=True)
class Outside:
    """CPU seconds of the candidate's calls in one launch, call by call."""

    inside_s: list[float] = field(default_factory=list)
    around_s: list[float] = field(default_factory=list)  # beyond the reference's, same inputs
    idle_s: list[float] = field(default_factory=list)  # while the other one was called, as well
    others_s: list[float] = field(default_factory=list)  # of its other processes, by pair, as well
    threads: list[int] = field(default_factory=list)  # after the calls, as well
    processes: list[int] = field(default_factory=list)


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
        self._class = change_class
        self._judge = Judge(change_class)
        self._state: Drawn = {}
        self.outside = Outside()
        self.samples: list[Sample] = []
        self.call_s: dict[Arm, list[float]] = {arm: [] for arm in ARMS}  # mean of each pair
        if maker.settings.state:
            state = maker.state()
            self._state = drawn(state)
            for arm in ARMS:
                arms[arm].put(state)
        for _ in range(WARM_UP):
            self._both(maker.varying())
        self.outside = Outside()

    def pair(self, launch: int, number: int, calls: int) -> Pair:
        """Measure one pair on inputs that no call has seen before."""
        bodies = [self._maker.varying() for _ in range(calls)]
        before = {arm: self._arms[arm].others_cpu_s() for arm in ARMS}
        turns = [self._both(body) for body in bodies]
        others = {arm: max(0.0, self._arms[arm].others_cpu_s() - before[arm]) for arm in ARMS}
        self.outside.others_s.append(others["candidate"] - others["baseline"])
        hidden = {arm: others[arm] + hidden_s(turns, arm) for arm in ARMS}
        busy = {arm: hidden[arm] + sum(turn[arm].answer.busy_s for turn in turns) for arm in ARMS}
        cpu = {arm: hidden[arm] + sum(turn[arm].answer.cpu_s for turn in turns) for arm in ARMS}
        for arm in ARMS:
            self.call_s[arm].append(busy[arm] / calls)
        self._sample(bodies, turns)
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

    def _sample(self, bodies: Sequence[bytes], turns: Sequence[dict[Arm, Turn]]) -> None:
        """Keep some calls of a pair, which nobody can know before, for classes that need it."""
        if self._class not in (ChangeClass.APPROXIMATE, ChangeClass.REORDER):
            return
        for index in self._rng.permutation(len(turns))[:SAMPLES]:
            old, new = (turns[index][arm].answer for arm in ARMS)
            if old.raised is None and new.raised is None:
                inputs = {**self._state, **drawn(bodies[index])}
                self.samples.append(Sample(inputs, old.outputs(), new.outputs()))

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
        self.outside.threads.append(new.threads - old.threads)
        self.outside.processes.append(new.processes - old.processes)
        self._compare(found["baseline"].answer, found["candidate"].answer)
        return found

    def _turn(self, process: Process, other: Process, body: bytes) -> Turn:
        """Call one arm."""
        idle, own = other.cpu_s(), process.rest()[0]
        process.put(body)
        answer = process.call()
        used = process.rest()[0] - own
        return Turn(
            answer,
            used - answer.cpu_s,
            other.cpu_s() - idle,
            process.threads(),
            process.processes(),
        )

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
        reference = Answers.of(old.outputs())
        try:
            failure = self._judge.add("a timed call", reference, Answers.of(new.outputs()))
        except (CodecError, InvalidInput) as error:  # broken, or an object array of something else
            failure = Failure("dtype_differs", f"in a timed call: {error}")
        if failure:
            self._record.take(
                gate("timed outputs", GateResult.FAIL, failure.reason, failure.detail)
            )


def hidden_s(turns: Sequence[dict[Arm, Turn]], arm: Arm) -> float:
    """Return the time of an arm's calls that lies outside go and done, beyond what is usual.

    Usual is the median of the reference's calls on the same inputs. CPU time counts in sum, so
    that what is done in few calls counts; wall time, which others disturb, counts by its median.
    """
    other: Arm = ARMS[1 - ARMS.index(arm)]
    cpu_s = [turn[arm].outside_s + turn[other].idle_s for turn in turns]
    usual_s = [turn["baseline"].outside_s + turn["candidate"].idle_s for turn in turns]
    fetch_s = [turn[arm].answer.fetch_s for turn in turns]
    usual_fetch_s = [turn["baseline"].answer.fetch_s for turn in turns]
    return max(
        0.0,
        sum(cpu_s) - len(turns) * float(np.median(usual_s)),
        len(turns) * float(np.median(fetch_s) - np.median(usual_fetch_s)),
    )


def company_gate(launches: Sequence[Outside]) -> Gate:
    """Refuse work in other processes, and threads and processes that are there between calls."""
    others_s = float(np.sum(np.concatenate([launch.others_s for launch in launches])))
    inside_s = float(np.sum(np.concatenate([launch.inside_s for launch in launches])))
    detail = (
        f"{1e3 * others_s:.1f} ms of CPU in other processes, beyond the reference's; "
        f"{1e3 * inside_s:.1f} ms in its own"
    )
    if others_s > len(launches) * OTHERS_S + OTHERS_SHARE * inside_s:
        return gate("company", GateResult.FAIL, "starts_processes", detail)
    for reason, counts in (
        ("starts_processes", [launch.processes for launch in launches]),
        ("starts_threads", [launch.threads for launch in launches]),
    ):
        share = float(np.mean(np.concatenate(counts) > 0))
        if share > COMPANY_SHARE:
            return gate("company", GateResult.FAIL, reason, f"after {share:.0%} of timed calls")
    return gate("company", GateResult.PASS, "alone", detail)


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
