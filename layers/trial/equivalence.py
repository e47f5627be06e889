"""What both arms answered, side by side, for the correctness gates.

Two sources: requests that the parent sends one at a time (recorded, mutated and salted, mixed and
drawn anew in every trial), and every answer of every timed block, so that what is timed is what is
checked. Nothing of a request but its content says what it is sent for.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from layers.errors import ToolFailed
from layers.evidence import Gate, GateResult, KindCount
from layers.gates.interface import sent_otherwise
from layers.gates.tensors import is_finite
from layers.measure.fresh import Fresh
from layers.measure.launch import ARMS, Arm, DoesNotServe, Launch
from layers.measure.load import LoadResult
from layers.traffic.envelope import addressed, content
from layers.traffic.recorded import Traffic, decode_response
from layers.trial.truths import Truths
from layers.triton.client import Client, Refused

Tensors: TypeAlias = Mapping[str, NDArray[np.generic]]
Compared: TypeAlias = tuple[Tensors, Tensors, Tensors | None]
Observe: TypeAlias = Callable[[bytes, Tensors, Tensors], None]

RECORDED = 120  # requests of the recording that a trial sends one at a time
MUTATED = 120  # and mutated ones, at least
REFEREED = 24  # of all of these, how many the float64 referee answers too: half of them recorded
RENEWED = 12  # and salted ones
INFER_TIMEOUT_S = 60.0
MUTATED_SPARE = 2  # mutated requests drawn for each one that is missing: a stack may refuse some
AS_RECORDED = "recorded"  # kind of a probe


@dataclass(frozen=True, slots=True)
class Refusal:
    """An arm's answer that is no response."""

    code: str
    detail: str = field(default="", compare=False)  # the words of an arm may differ


@dataclass(frozen=True, slots=True)
class Probe:
    """A request that is sent one at a time, and what its answers are used for."""

    message: bytes
    kind: str = AS_RECORDED
    refereed: bool = False
    observed: bool = False
    odd: bool = False  # may take places in timed blocks, once it was answered alike
    far: bool = True  # compared even where the baseline's own answer is not finite


def recorded(traffic: Traffic, rng: np.random.Generator) -> list[bytes]:
    """Draw requests of the recording, as many as a trial sends one at a time."""
    count = min(RECORDED, len(traffic.requests))
    chosen = rng.choice(len(traffic.requests), size=count, replace=False)
    return [traffic.requests[int(index)] for index in chosen]


class Unsent:
    """Requests whose content nobody has sent: neither recorded nor drawn here before."""

    def __init__(self, traffic: Traffic, fresh: Fresh | None, rng: np.random.Generator) -> None:
        """Draw by `fresh`, then by mutation; `rng` must not be foreseeable."""
        self._traffic, self._fresh, self._rng = traffic, fresh, rng
        self._known: set[bytes] | None = None
        self._asked: set[bytes] = set()  # content that was sent, of the recording too

    def add(self, messages: Sequence[bytes]) -> None:
        """Count `messages` as sent."""
        marks = set(map(content, messages))
        self._sent().update(marks)
        self._asked |= marks

    def draw(self, count: int) -> list[bytes]:
        """Return up to `count` salted requests; to fewer, spare mutated ones are added."""
        found = self.salted(count)
        if len(found) < count:
            seed, spare = int(self._rng.integers(1 << 31)), MUTATED_SPARE * count
            found += self._new(self._traffic.mutated(seed, spare))
        return found

    def salted(self, count: int) -> list[bytes]:
        """Return up to `count` salted requests."""
        if self._fresh is None or count <= 0:
            return []
        order = self._rng.integers(len(self._traffic.requests), size=count)
        return self._new(self._fresh.messages(order))

    def rows(self, count: int) -> list[tuple[bytes, bytes, bytes]]:
        """Return up to `count` new requests, each with two that a memo of it would answer.

        Those are the same again, and the same again or, where the salt keeps the columns of a
        request, another salted copy of its original: a memo may go by what the salt leaves. To
        fewer, requests of the recording are added that were not sent so far.
        """
        found: list[tuple[bytes, bytes, bytes]] = []
        if self._fresh is not None:
            order = self._rng.integers(len(self._traffic.requests), size=count)
            firsts = self._fresh.messages(order)
            others = firsts if self._fresh.salt.recombine else self._fresh.messages(order)
            pairs = zip(firsts, others, strict=True)
            found = [(first, first, other) for first, other in pairs if self._new([first])]
        return found + [(m, m, m) for m in self._left(count - len(found))]

    def _left(self, count: int) -> list[bytes]:
        """Return up to `count` requests of the recording that were not sent so far."""
        found: list[bytes] = []
        if count <= 0:
            return found
        for place in self._rng.permutation(len(self._traffic.requests)).tolist():
            message = self._traffic.requests[place]
            mark = content(message)
            if mark not in self._asked:
                self._asked.add(mark)
                found.append(message)
            if len(found) >= count:
                break
        return found

    def _new(self, messages: Sequence[bytes]) -> list[bytes]:
        """Return the messages whose content is new; it is known from then on."""
        sent, found = self._sent(), []
        for message in messages:
            mark = content(message)
            if mark not in sent:
                found.append(message)
                sent.add(mark)
        return found

    def _sent(self) -> set[bytes]:
        if self._known is None:
            requests = self._traffic.requests
            self._known = {content(requests[index]) for index in range(len(requests))}
        return self._known


class Sequential:
    """Both arms' answers to requests sent one at a time; refusals are compared by their code."""

    def __init__(self, launch: Launch, referee: Truths | None, observe: Observe | None) -> None:
        """Use the running arms of `launch`; `referee` answers the first requests too.

        `observe` sees each request with both answers, after they were compared.
        """
        self._launch = launch
        self._referee = referee
        self.observe = observe
        self.answered = 0
        self.refusals = 0
        self.refused_differently = 0
        self.told = ""  # what the author of a draft may know of the first of those
        self.counts: dict[str, KindCount] = {}  # by kind of request
        self.kinds: list[str] = []  # of the requests whose answers were yielded, in order
        self.odd: list[bytes] = []  # what both arms answered of the probes that may be timed
        self._ids = np.random.default_rng(secrets.randbits(128))

    def answers(self, requests: Iterable[bytes], *, refereed: int = 0) -> Iterator[Compared]:
        """Yield (baseline, candidate, referee or None) for each request that both arms answer."""
        numbered = enumerate(requests)
        yield from self.probed(Probe(r, refereed=n < refereed, observed=True) for n, r in numbered)

    def probed(self, probes: Iterable[Probe]) -> Iterator[Compared]:
        """Yield (baseline, candidate, referee or None) for each probe that both arms answer."""
        with self._clients() as clients, ThreadPoolExecutor(len(ARMS)) as pool:
            for probe in probes:
                # Nothing is timed here, so both arms may be busy at the same time.
                message = addressed(probe.message, self._ids)
                asked = [pool.submit(_ask, clients[arm], message) for arm in ARMS]
                old, new = (future.result() for future in asked)
                if isinstance(old, bytes) and isinstance(new, bytes):
                    _check_alike(old, new)
                both = self._answered(_decoded(old), _decoded(new))
                self._count(probe.kind, answered=both is not None)
                if both is None:
                    self._check_alive()
                elif not probe.far and not finite(both[0]):
                    self.answered -= 1  # no gate but that of exact changes can compare it
                else:
                    yield self._compared(probe, both)
                    if probe.observed and self.observe is not None:
                        self.observe(probe.message, *both)

    def _compared(self, probe: Probe, both: tuple[Tensors, Tensors]) -> Compared:
        """Return what is compared of a probe's answers, and keep what it was."""
        self.kinds.append(probe.kind)
        if probe.odd:
            self.odd.append(probe.message)
        truth = None
        if self._referee is not None and probe.refereed:
            sure = probe.kind == AS_RECORDED
            truth = self._referee.of(probe.message, both[0], recorded=sure)
        return *both, truth

    def _count(self, kind: str, *, answered: bool) -> None:
        seen = self.counts.get(kind, KindCount(answered=0, refused=0))
        self.counts[kind] = KindCount(
            answered=seen.answered + answered, refused=seen.refused + (not answered)
        )

    def named(self, gate: Gate) -> Gate:
        """Return a gate, its detail completed by the kind of the request that it names."""
        found = re.search(r"\brequest (\d{1,9})", gate.detail)
        if found is None or int(found[1]) >= len(self.kinds):
            return gate
        kind = self.kinds[int(found[1])]
        return gate.model_copy(update={"detail": f"{gate.detail} (a request of kind: {kind})"})

    @contextmanager
    def _clients(self) -> Iterator[dict[Arm, Client]]:
        """Yield a client of each arm; both are closed afterwards."""
        with ExitStack() as undo:
            yield {arm: undo.enter_context(Client(self._launch.arm(arm).grpc)) for arm in ARMS}

    def _check_alive(self) -> None:
        """End the trial where an arm has died: each further request would fail after a second.

        Raises DoesNotServe where it is the candidate, ToolFailed where it is the baseline alone.
        """
        for arm in ARMS:
            with self._launch.blaming(arm):
                self._launch.arm(arm).alive()

    def _answered(
        self, old: Tensors | Refusal, new: Tensors | Refusal
    ) -> tuple[Tensors, Tensors] | None:
        """Return both answers, or None, counted, where an arm refused."""
        if isinstance(old, Refusal) or isinstance(new, Refusal):
            self.refusals += 1
            if old != new:
                self.refused_differently += 1
                self.told = self.told or _told(new)
            return None
        self.answered += 1
        return old, new

    def gate(self) -> Gate:
        """Return whether both arms refused the same requests, with the same code."""
        same = self.refused_differently == 0
        return Gate(
            name="refusals",
            result=GateResult.PASS if same else GateResult.FAIL,
            reason="refusals_identical" if same else "refusals_differ",
            detail=f"{self.refusals} requests refused by an arm, "
            f"{self.refused_differently} of them not alike",
        )


def _told(candidate: Tensors | Refusal) -> str:
    """Say what the candidate did with a request that the baseline did something else with."""
    if isinstance(candidate, Refusal):
        return f"the candidate refused a request with {candidate.code}: {candidate.detail}"
    return "the candidate answered a request that the baseline refuses"


def _ask(client: Client, request: bytes) -> bytes | Refusal:
    """Return the bytes of the arm's answer, or what it refused with."""
    try:
        return client.infer(request, INFER_TIMEOUT_S)
    except Refused as error:
        return Refusal(error.code, error.detail)


def _decoded(answer: bytes | Refusal) -> Tensors | Refusal:
    """Return an answer's outputs; one that is no response is a refusal too."""
    if isinstance(answer, Refusal):
        return answer
    try:
        return decode_response(answer)
    except ValueError:
        return Refusal("MALFORMED")


def finite(outputs: Tensors) -> bool:
    """Whether every number of an answer is finite."""
    return all(is_finite(values) for values in outputs.values())


def timed(
    baseline: LoadResult, candidate: LoadResult, *, both_baseline: bool = False
) -> Iterator[Compared]:
    """Yield both arms' outputs of every request of a pair of timed blocks, position by position.

    Raises ToolFailed where the arms were not sent the same requests in the same order, DoesNotServe
    where answers differ in what no array shows, and not `both_baseline`: nobody is to blame for that.
    """
    same_order = np.array_equal(baseline.records["index"], candidate.records["index"])
    if baseline.request_set != candidate.request_set or not same_order:
        raise ToolFailed("the arms of a pair were sent different requests")
    for position in range(len(baseline.records)):
        old, new = baseline.response(position), candidate.response(position)
        if not both_baseline:
            _check_alike(old, new)
        yield outputs(old), outputs(new), None


def _check_alike(old: bytes, new: bytes) -> None:
    """Raise DoesNotServe where answers differ in what a client sees beside their arrays."""
    told = sent_otherwise(old, new)
    if told is not None:
        raise DoesNotServe(told, reason="interface_differs")


def outputs(response: bytes) -> Tensors:
    """Return the outputs of a timed answer; none for one that is no response."""
    decoded = _decoded(response)
    return {} if isinstance(decoded, Refusal) else decoded
