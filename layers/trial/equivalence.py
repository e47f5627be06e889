"""What both arms answered, side by side, for the correctness gates.

Two sources: requests that the parent sends one at a time (recorded, mutated and salted, fresh in
every trial), and every answer of every timed block, so that what is timed is what is checked.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2

from layers.errors import ToolFailed
from layers.evidence import Gate, GateResult
from layers.gates.referee import Referee
from layers.measure.fresh import Fresh
from layers.measure.launch import ARMS, Arm, Launch
from layers.measure.load import LoadResult
from layers.traffic.recorded import Traffic, decode, decode_response
from layers.traffic.tensors import encode, parse
from layers.trial.memory_probe import REPEATS, Timings
from layers.triton.client import Client, Refused

Tensors: TypeAlias = Mapping[str, NDArray[np.generic]]
Compared: TypeAlias = tuple[Tensors, Tensors, Tensors | None]
Observe: TypeAlias = Callable[[bytes, Tensors, Tensors], None]

RECORDED = 120  # requests of the recording that a trial sends one at a time
MUTATED = 60  # and mutated ones
REFEREED = 24  # of the recorded ones, how many the float64 referee answers too
INFER_TIMEOUT_S = 60.0
MUTATED_SPARE = 2  # mutated requests drawn for each one that is missing: a stack may refuse some


@dataclass(frozen=True, slots=True)
class Refusal:
    """An arm's answer that is no response."""

    code: str
    detail: str = field(default="", compare=False)  # the words of an arm may differ


def probes(traffic: Traffic, rng: np.random.Generator) -> tuple[list[bytes], list[bytes]]:
    """Draw a trial's recorded and mutated requests, after the candidate was written.

    `rng` must not be one whose draws can be foreseen from the run's seed.
    """
    sent = recorded(traffic, rng)
    return sent, traffic.mutated(int(rng.integers(1 << 31)), MUTATED)


def recorded(traffic: Traffic, rng: np.random.Generator) -> list[bytes]:
    """Draw requests of the recording, as many as a trial sends one at a time."""
    count = min(RECORDED, len(traffic.requests))
    chosen = rng.choice(len(traffic.requests), size=count, replace=False)
    return [traffic.requests[int(index)] for index in chosen]


def content(message: bytes) -> bytes:
    """Return a digest of a request's inputs, whatever its id and its way of holding them.

    Raises ValueError for what is no request.
    """
    request = parse(service_pb2.ModelInferRequest, message)
    if not request.raw_input_contents:  # typed contents become raw
        plain = encode(message, decode(message), "")
        request = parse(service_pb2.ModelInferRequest, plain)
    digest = hashlib.blake2b(digest_size=16)
    for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=True):
        digest.update(repr((tensor.name, tensor.datatype, [*tensor.shape], len(raw))).encode())
        digest.update(raw)
    return digest.digest()


class Unsent:
    """Requests whose content nobody has sent: neither recorded nor drawn here before."""

    def __init__(self, traffic: Traffic, fresh: Fresh | None, rng: np.random.Generator) -> None:
        """Draw by `fresh`, then by mutation; `rng` must not be foreseeable."""
        self._traffic, self._fresh, self._rng = traffic, fresh, rng
        self._known: set[bytes] | None = None

    def add(self, messages: Sequence[bytes]) -> None:
        """Count `messages` as sent."""
        self._sent().update(map(content, messages))

    def draw(self, count: int) -> list[bytes]:
        """Return up to `count` salted requests; to fewer, spare mutated ones are added."""
        if count <= 0:
            return []
        found: list[bytes] = []
        if self._fresh is not None:
            order = self._rng.integers(len(self._traffic.requests), size=count)
            found += self._new(self._fresh.messages(order))
        if len(found) < count:
            seed, spare = int(self._rng.integers(1 << 31)), MUTATED_SPARE * count
            found += self._new(self._traffic.mutated(seed, spare))
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

    def __init__(self, launch: Launch, referee: Referee | None, observe: Observe | None) -> None:
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

    def answers(self, requests: Iterable[bytes], *, refereed: int = 0) -> Iterator[Compared]:
        """Yield (baseline, candidate, referee or None) for each request that both arms answer."""
        with self._clients() as clients, ThreadPoolExecutor(len(ARMS)) as pool:
            for number, request in enumerate(requests):
                # Nothing is timed here, so both arms may be busy at the same time.
                asked = [pool.submit(_ask, clients[arm], request) for arm in ARMS]
                both = self._answered(*(_decoded(future.result()) for future in asked))
                if both is None:
                    self._check_alive()
                    continue
                truth = None
                if self._referee is not None and number < refereed:
                    truth = self._referee.answer(decode(request))
                yield *both, truth
                if self.observe is not None:
                    self.observe(request, *both)

    def repeated(
        self, requests: Sequence[bytes], timings: Timings, rng: np.random.Generator, most: int
    ) -> Iterator[Compared]:
        """Yield both arms' answers to each request and its repeats, timed into `timings`.

        Ends once `most` requests were timed; those that are refused do not count.
        """
        with self._clients() as clients:
            for request in requests:
                if len(timings) >= most:
                    return
                taken_s: dict[str, list[float]] = {arm: [] for arm in ARMS}
                for _ in range(1 + REPEATS):
                    answers: dict[Arm, bytes | Refusal] = {}
                    for arm in ARMS if rng.random() < 0.5 else ARMS[::-1]:
                        begun_s = time.perf_counter()
                        answers[arm] = _ask(clients[arm], request)
                        taken_s[arm].append(time.perf_counter() - begun_s)
                    both = self._answered(*(_decoded(answers[arm]) for arm in ARMS))
                    if both is None:
                        self._check_alive()
                        break
                    yield *both, None
                else:
                    timings.add(taken_s)

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


def timed(baseline: LoadResult, candidate: LoadResult) -> Iterator[Compared]:
    """Yield both arms' outputs of every request of a pair of timed blocks, position by position.

    Raises ToolFailed where the arms were not sent the same requests in the same order.
    """
    same_order = np.array_equal(baseline.records["index"], candidate.records["index"])
    if baseline.request_set != candidate.request_set or not same_order:
        raise ToolFailed("the arms of a pair were sent different requests")
    for position in range(len(baseline.records)):
        old, new = baseline.response(position), candidate.response(position)
        yield outputs(old), outputs(new), None


def outputs(response: bytes) -> Tensors:
    """Return the outputs of a timed answer; none for one that is no response."""
    decoded = _decoded(response)
    return {} if isinstance(decoded, Refusal) else decoded
