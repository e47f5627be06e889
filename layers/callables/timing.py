"""Timed calls of both arms: pairs inside launches, fresh content in every call.

A launch starts both processes afresh. Inside it the arms are called on the same inputs one after
the other in random order, by the parent's clock; a pair is the sum over its calls. Every timed
output is compared, and of some calls what they did to their arguments; other calls lie between
them (`strays`). What an arm uses of the CPU from one end of a launch to the other is accounted for
without a gap: in its calls, while it takes arguments in, while results are fetched, while the other
one is called, between calls, in other processes. What a candidate uses outside its calls beyond
the reference is added to its time, each of these by itself: nothing can be gained by it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np

from layers.base import ChangeClass
from layers.callables import codec
from layers.callables.audit import Sample
from layers.callables.cell import Answer, How
from layers.callables.codec import CodecError
from layers.callables.compare import BASE, Answers, Failure, Judge, gate, raised_failure
from layers.callables.conduct import FETCH_FACTOR, Elsewhere, Outside
from layers.callables.correctness import own_changes
from layers.callables.maker import Drawn, Maker, drawn, ours
from layers.callables.process import Process
from layers.callables.station import Record
from layers.callables.strays import Stray, Strays, Told
from layers.errors import InvalidInput
from layers.evidence import Gate, GateResult, Pair

Arm: TypeAlias = Literal["baseline", "candidate"]
ARMS: tuple[Arm, Arm] = ("baseline", "candidate")
Puts: TypeAlias = Sequence[tuple[bytes, How]]  # bodies, and how they get into the processes

PAIR_S = 0.04  # of each arm, about
LEAST_CALLS, MOST_CALLS = 3, 32  # of each arm in a pair
WARM_UP = 3
SAMPLES = 2  # of a pair's calls, whose answers are audited
DEFERRED_S, DEFERRED_SHARE = 2e-4, 0.1  # CPU of an untimed call beyond the reference's, to be asked
LARGE_ARGUMENTS = 1 << 25  # bytes beyond which arguments are asked for once in a launch
MOST_HELD_BYTES = 1 << 26  # of results that a process holds to the end of a launch
MOST_DOUBTFUL = 8  # calls of a pair that only float64 can tell right from wrong


@dataclass(slots=True)
class Turn:
    """One call, with the CPU time of its arm and of the other one around it."""

    answer: Answer
    put_s: float  # of this arm, while it took its arguments in
    idle_s: float  # of the other arm meanwhile
    threads: int  # of this arm once it has returned
    processes: int
    born: bool = False  # whether any process or thread started meanwhile

    @property
    def used_s(self) -> float:
        """CPU of this arm in all of its turn."""
        return self.put_s + self.answer.cpu_s + self.answer.fetch_cpu_s


@dataclass(slots=True)
class Spent:
    """One pair: the time and the CPU time of both arms, with all that they are charged."""

    busy_s: dict[Arm, float]
    cpu_s: dict[Arm, float]

    def charge(self, arm: Arm, seconds: float) -> None:
        """Add what an arm used outside its calls."""
        self.busy_s[arm] += seconds
        self.cpu_s[arm] += seconds


@dataclass(frozen=True, slots=True)
class Extent:
    """How much one launch measures."""

    calls: int  # of each arm in a pair
    pairs: int


@dataclass(frozen=True, slots=True)
class Asked:
    """What an arm tells of its last call besides what it returned."""

    arguments: bytes
    earlier: bytes  # what the call before returned, read again
    aliases: frozenset[tuple[str, str]]
    cpu_s: float  # of telling it


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
        extent: Extent,
    ) -> None:
        """Hand the state over and warm both arms up."""
        self._arms, self._maker, self._rng = arms, maker, rng
        self._record, self._extent = record, extent
        self._class = change_class
        self._judge = Judge(change_class)
        self._sent: Drawn = {}  # the arguments that both arms have, but for
        self._body = b""  # those handed over since, if any
        self._answers: list[dict[Arm, Answer]] = []  # of the last two calls
        self._spent: list[Spent] = []  # pair by pair
        self._slot = 0  # timed calls so far
        self._doubts = 0  # calls of this pair that the referee has to settle
        self._doubtful: dict[int, Sample] = {}
        self._held: list[dict[Arm, Answer]] = []  # that both processes hold
        self._looked = False  # at arguments after a call
        self._excess_s = 0.0  # of the candidate in calls that are not timed, beyond the reference's
        self._accounted_s: dict[Arm, float] = dict.fromkeys(ARMS, 0.0)  # in calls, since settled
        self._apart_s: dict[Arm, float] = dict.fromkeys(ARMS, 0.0)  # the same of other processes
        self.outside = Outside()
        self.samples: list[Sample] = []
        self.told: list[Told] = []
        self.call_s: dict[Arm, list[float]] = {arm: [] for arm in ARMS}  # mean of each pair
        if maker.settings.state:
            state = maker.state()
            self._sent = drawn(state)
            for arm in ARMS:
                arms[arm].put(state)
        self._strays = self._planned()
        self._warm_up()

    def _planned(self) -> Strays | None:
        """Return the calls to mix in; none where the reference is measured against itself."""
        if self._arms["candidate"].role != "candidate":
            return None
        return Strays(self._maker, self._rng, self._extent.calls, self._extent.pairs)

    def _warm_up(self) -> None:
        """Call both arms on all sizes to come; what they use from here on is accounted for."""
        for _ in range(WARM_UP):
            self._timed(self._maker.varying())
        for stray in self._strays.visits(self._arguments()) if self._strays else ():
            self._stray(stray)
        self._timed(self._maker.varying())
        self.outside, self.told, self._excess_s, self._slot = Outside(), [], 0.0, 0
        self._accounted_s = dict.fromkeys(ARMS, 0.0)
        self._mark_s = {arm: self._arms[arm].rest()[0] for arm in ARMS}
        self._others_s = {arm: self._arms[arm].others_cpu_s() for arm in ARMS}
        self._resident = [self._residents()]

    def pair(self) -> None:
        """Measure one pair on inputs that no call has seen before."""
        calls = self._extent.calls
        bodies = [self._maker.varying() for _ in range(calls)]
        audited = set(self._audited(calls))
        looked_at, held = self._rng.integers(calls, size=2).tolist()
        turns = []
        for index, body in enumerate(bodies):
            self._mix_in()
            turns.append(self._timed(body))
            if index in audited:
                self._sample(turns[-1])
            if index == looked_at:
                self._look_at_arguments()
            if index == held:
                self._hold(turns[-1])
        self.samples += self._doubtful.values()
        self._doubts, self._doubtful = 0, {}
        self._spent.append(_spent(turns))
        self._settle()
        self._resident.append(self._residents())

    def close(self, launch: int) -> list[Pair]:
        """Make the last calls, look at what is left behind, and return the pairs."""
        self._grown()
        self._mix_in()
        self._settle()
        self._left_behind()
        self.samples += self._doubtful.values()
        for spent in self._spent:
            for arm in ARMS:
                self.call_s[arm].append(spent.busy_s[arm] / self._extent.calls)
        return [
            Pair(
                launch=launch,
                pair=number,
                throughput_ratio=spent.busy_s["baseline"] / spent.busy_s["candidate"],
                cpu_ratio=max(spent.cpu_s["baseline"], 1e-9) / max(spent.cpu_s["candidate"], 1e-9),
            )
            for number, spent in enumerate(self._spent, start=1)
        ]

    @property
    def compared(self) -> int:
        """How many calls were compared."""
        return self._judge.calls

    # --- calls ---

    def _timed(self, body: bytes) -> dict[Arm, Turn]:
        """Call both arms on fresh inputs, and compare."""
        self._slot += 1
        self._body = body
        found = self._both([(body, "fresh")])
        old, new, outside = found["baseline"], found["candidate"], self.outside
        outside.inside_s.append(new.answer.cpu_s)
        outside.around_s.append(new.put_s - old.put_s)
        outside.taken_in_s.append(old.put_s)
        outside.fetch_s.append(new.answer.fetch_cpu_s - FETCH_FACTOR * old.answer.fetch_cpu_s)
        outside.idle_s.append(old.idle_s - new.idle_s)
        outside.threads.append(new.threads - old.threads)
        outside.processes.append(new.processes - old.processes)
        outside.births.append(new.born - old.born)
        outside.output_bytes = len(old.answer.body)
        self._compare(old.answer, new.answer)
        return found

    def _arguments(self) -> Drawn:
        """Return the arguments that both arms have: decoded only when somebody asks."""
        if self._body:
            self._sent, self._body = self._sent | drawn(self._body), b""
        return self._sent

    def _both(self, puts: Puts) -> dict[Arm, Turn]:
        """Call both arms on the same inputs, in random order."""
        found: dict[Arm, Turn] = {}
        for index in self._rng.permutation(2).tolist():
            found[ARMS[index]] = self._turn(ARMS[index], puts)
        self._answers = [*self._answers[-1:], {arm: found[arm].answer for arm in ARMS}]
        theirs, mine = (self._arms[arm].cpus() for arm in ARMS)
        if not mine <= theirs:
            detail = f"in a timed call: it may run on the CPUs {sorted(mine)}, not {sorted(theirs)}"
            self._fail("timed state", "global_state_changed", detail)
        return found

    def _turn(self, arm: Arm, puts: Puts) -> Turn:
        """Call one arm."""
        other = _other(arm)
        process = self._arms[arm]
        idle, own = self._arms[other].cpu_s(), process.rest()[0]
        for body, how in puts:
            process.put(body, how)
        births = process.births()
        answer = process.call()
        born = process.births() != births
        used, idle = process.rest()[0] - own, self._arms[other].cpu_s() - idle
        self._accounted_s[arm] += used
        self._accounted_s[other] += idle
        return Turn(
            answer,
            used - answer.cpu_s - answer.fetch_cpu_s,
            idle,
            process.threads(),
            process.processes(),
            born,
        )

    def _compare(
        self, old: Answer, new: Answer, where: str = "a timed call", group: str = BASE
    ) -> None:
        """Compare what one call returned or raised."""
        if old.raised is not None or new.raised is not None:
            failure = raised_failure(where, old.raised, new.raised)
        elif old.body == new.body:
            self._judge.calls += 1
            return
        else:
            failure = self._differing(old, new, where, group)
        if failure is None:
            return
        if failure.for_referee:
            self._doubt(old, new)
        else:
            self._fail("timed outputs", failure.reason, failure.detail)

    def _differing(self, old: Answer, new: Answer, where: str, group: str) -> Failure | None:
        """Return why outputs that are not the same bytes fail, if they do."""
        reference = Answers.of(old.outputs())
        try:
            return self._judge.add(where, reference, Answers.of(new.outputs()), None, group)
        except (CodecError, InvalidInput) as error:  # broken, or an object array of something else
            return Failure("dtype_differs", f"in {where}: {error}")

    def _doubt(self, old: Answer, new: Answer) -> None:
        """Keep a call for the referee: of a pair's at most some, any of them."""
        place = self._doubts
        if place >= MOST_DOUBTFUL:
            place = int(self._rng.integers(self._doubts + 1))
        self._doubts += 1
        if place < MOST_DOUBTFUL:
            self._doubtful[place] = Sample(self._arguments(), old.outputs(), new.outputs())

    def _fail(self, name: str, reason: str, detail: str) -> None:
        """End the judgement."""
        self._record.take(gate(name, GateResult.FAIL, reason, detail))

    # --- calls that are not timed ---

    def _mix_in(self) -> None:
        """Make the calls that are due here."""
        kinds = self._strays.plan.get(self._slot, []) if self._strays else []
        if self._strays is None or not kinds:
            return
        before = {arm: self._arms[arm].others_cpu_s() for arm in ARMS}
        for kind in kinds:
            times: list[tuple[float, float]] = []
            strays = self._strays.due(kind, self._arguments())
            for stray in strays:
                found = self._stray(stray)
                if stray.size and found["baseline"].answer.raised is None:
                    old_s, new_s = (found[arm].answer.busy_s for arm in ARMS)
                    times.append((old_s, new_s))
            if times:
                old_s, new_s = np.median(times, axis=0).tolist()
                tells = self._strays.tells(strays[0])
                self.outside.sizes.append(Elsewhere(strays[0].size, tells, old_s, new_s))
        used = {arm: self._arms[arm].others_cpu_s() - before[arm] for arm in ARMS}
        for arm in ARMS:
            self._apart_s[arm] += used[arm]
        self._excess_s += max(0.0, used["candidate"] - used["baseline"])

    def _stray(self, stray: Stray) -> dict[Arm, Turn]:
        """Make one call that is not timed, and compare."""
        puts: list[tuple[bytes, How]] = []
        if stray.refilled:
            puts.append((codec.encode(stray.refilled), "refill"))
        if stray.inputs:
            puts.append((codec.encode(stray.inputs), "fresh"))
        self._sent = self._arguments() | stray.refilled | stray.inputs
        found = self._both(puts)
        self._excess_s += self._deferred_s(found, puts)
        old, new = (found[arm].answer for arm in ARMS)
        both = old.raised is None and new.raised is None
        if stray.size and old.raised is not None:
            return found  # the state of another draw may not be for this size
        if both and stray.group != BASE and self._class is ChangeClass.REORDER:
            answers = (Answers.of(old.outputs()), self._outputs(new))
            self.told.append(Told(stray, self._sent, *answers))
        else:
            self._compare(old, new, f"{stray.name}, between timed calls", stray.group)
        return found

    def _deferred_s(self, found: dict[Arm, Turn], puts: Puts) -> float:
        """Return the CPU time that the candidate may have saved up for a call that is not timed.

        It is beyond the reference's and does not come again: unusual content may just take long.
        """
        old_s, new_s = (_around_s(found, arm) for arm in ARMS)
        excess_s = new_s - old_s
        if excess_s > max(DEFERRED_S, DEFERRED_SHARE * old_s):
            excess_s = min(excess_s, new_s - _around_s(self._both(puts), "candidate"))
        return max(0.0, excess_s)

    def _outputs(self, answer: Answer) -> Answers:
        """Return what the candidate returned; a body of no format ends the judgement."""
        try:
            return Answers.of(answer.outputs())
        except CodecError as error:
            self._fail("timed outputs", "dtype_differs", f"between timed calls: {error}")
            raise

    # --- what calls do besides returning ---

    def _audited(self, calls: int) -> Collection[int]:
        """Return the calls of a pair, which nobody can know before, whose answers are audited."""
        if self._class not in (ChangeClass.APPROXIMATE, ChangeClass.REORDER):
            return ()
        chosen: list[int] = self._rng.permutation(calls)[:SAMPLES].tolist()
        return chosen

    def _sample(self, turns: dict[Arm, Turn]) -> None:
        """Keep a call for the classes that one answer alone cannot fail."""
        old, new = (turns[arm].answer for arm in ARMS)
        if old.raised is None and new.raised is None:
            self.samples.append(Sample(self._arguments(), old.outputs(), new.outputs()))

    def _look_at_arguments(self) -> None:
        """Compare what the last call did besides returning, as the correctness station does."""
        sent = self._arguments()
        size = sum(leaf.array.nbytes for leaf in sent.values())
        calls = [answer for answers in self._answers for answer in answers.values()]
        if (self._looked and size > LARGE_ARGUMENTS) or any(x.raised is not None for x in calls):
            return
        self._looked = True
        old, new = (self._asked(arm) for arm in ARMS)
        self._excess_s += max(0.0, new.cpu_s - FETCH_FACTOR * old.cpu_s)
        kept = old.arguments == codec.encode(sent)
        failure = self._judge.arguments(
            "a timed call", sent if kept else None, old.arguments, new.arguments
        )
        if failure and not failure.for_referee:
            self._fail("timed conduct", failure.reason, failure.detail)
        extra = new.aliases - old.aliases
        if extra:
            output, argument = min(extra)
            detail = f"in a timed call: {output!r} lies in the memory of {argument!r}"
            self._fail("timed conduct", "output_aliases_input", detail)
        self._result_kept(self._answers[0], old.earlier, new.earlier)

    def _result_kept(self, answers: dict[Arm, Answer], old: bytes, new: bytes) -> None:
        """Hold what results are, read again, to what they were."""
        if old == answers["baseline"].body and new != answers["candidate"].body:
            detail = "a timed call changed what a call before returned"
            self._fail("timed conduct", "output_buffer_reused", detail)

    def _hold(self, turns: dict[Arm, Turn]) -> None:
        """Have both processes hold what they returned, as far as memory allows."""
        answers = {arm: turns[arm].answer for arm in ARMS}
        size = sum(len(held["candidate"].body) for held in [*self._held, answers])
        if size <= MOST_HELD_BYTES and all(x.raised is None for x in answers.values()):
            for arm in ARMS:
                self._arms[arm].keep()
            self._held.append(answers)

    def _asked(self, arm: Arm) -> Asked:
        """Ask an arm for what its last call did."""
        process = self._arms[arm]
        before = process.rest()[0]
        told = process.arguments(), process.earlier(), process.aliases()
        used = process.rest()[0] - before
        self._accounted_s[arm] += used
        return Asked(*told, used)

    def _settle(self) -> None:
        """Charge the last pair what both arms used since the one before, outside all calls."""
        now = {arm: self._arms[arm].rest()[0] for arm in ARMS}
        gaps = {arm: now[arm] - self._mark_s[arm] - self._accounted_s[arm] for arm in ARMS}
        gap = gaps["candidate"] - gaps["baseline"]
        others_now = {arm: self._arms[arm].others_cpu_s() for arm in ARMS}
        others = {
            arm: max(0.0, others_now[arm] - self._others_s[arm] - self._apart_s[arm])
            for arm in ARMS
        }
        self.outside.gaps_s.append(gap)
        self.outside.others_s.append(others["candidate"] - others["baseline"])
        for arm in ARMS:
            self._spent[-1].charge(arm, others[arm])
        self._spent[-1].charge("candidate", max(0.0, gap) + self._excess_s)
        self._mark_s, self._others_s, self._excess_s = now, others_now, 0.0
        self._accounted_s = dict.fromkeys(ARMS, 0.0)
        self._apart_s = dict.fromkeys(ARMS, 0.0)

    def _residents(self) -> dict[Arm, int]:
        return {arm: self._arms[arm].resident_bytes() for arm in ARMS}

    def _grown(self) -> None:
        """Keep by how much the candidate's process grew beyond the reference's, half by half."""
        pairs = len(self._resident) - 1
        if pairs < 2:
            return
        marks = [self._resident[at] for at in (0, pairs // 2, pairs)]
        for before, after in pairwise(marks):
            grown = {arm: after[arm] - before[arm] for arm in ARMS}
            self.outside.grown.append(grown["candidate"] - max(0, grown["baseline"]))
        self.outside.half = self._extent.calls * (pairs // 2)

    def _left_behind(self) -> None:
        """Hold what a candidate's results are now, and its process, to the reference's."""
        mine, other = self._arms["candidate"], self._arms["baseline"]
        if mine.role != "candidate":
            return
        for index, answers in enumerate(self._held):
            self._result_kept(answers, other.kept(index), mine.kept(index))
        extra = own_changes(mine.changes(), other.changes(), mine, other)
        if extra:
            detail = f"while it was timed: {', '.join(sorted(extra)[:5])}"
            self._fail("timed state", "global_state_changed", detail)


def _other(arm: Arm) -> Arm:
    return ARMS[1 - ARMS.index(arm)]


def _around_s(found: dict[Arm, Turn], arm: Arm) -> float:
    """Return all CPU time of an arm in its own turn and the other one's."""
    return found[arm].used_s + found[_other(arm)].idle_s


def _spent(turns: Sequence[dict[Arm, Turn]]) -> Spent:
    """Return the time of a pair's calls, with what its arms did around them."""
    spent = Spent(
        {arm: sum(turn[arm].answer.busy_s for turn in turns) for arm in ARMS},
        {arm: sum(turn[arm].answer.cpu_s for turn in turns) for arm in ARMS},
    )
    for arm in ARMS:
        spent.charge(arm, hidden_s(turns, arm))
    return spent


def hidden_s(turns: Sequence[dict[Arm, Turn]], arm: Arm) -> float:
    """Return the time of an arm's calls that lies outside go and done, beyond what is usual.

    Usual is the median of the reference's calls on the same inputs. What is saved in one place
    pays for nothing in another. CPU time counts in sum, so that what is done in few calls counts;
    wall time, which others disturb, counts by its median.
    """
    other = _other(arm)
    put_s = _beyond([t[arm].put_s for t in turns], [t["baseline"].put_s for t in turns])
    idle_s = _beyond([t[other].idle_s for t in turns], [t["candidate"].idle_s for t in turns])
    fetches = [turn[arm].answer for turn in turns], [turn["baseline"].answer for turn in turns]
    fetch_cpu_s = _beyond(*([answer.fetch_cpu_s for answer in side] for side in fetches))
    mine_s, usual_s = (float(np.median([x.fetch_s for x in side])) for side in fetches)
    return put_s + idle_s + max(fetch_cpu_s, len(turns) * (mine_s - usual_s))


def _beyond(spent_s: Sequence[float], usual_s: Sequence[float]) -> float:
    """Return what calls spent in sum beyond the usual; less is no credit."""
    return max(0.0, sum(spent_s) - len(spent_s) * float(np.median(usual_s)))


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
