"""How the unmodified stack takes each kind of changed request: asked before there is a candidate.

A kind that it answers is sent in every trial, one that it refuses is compared as a refusal. One that
ends it, or whose answer it does not repeat, would say nothing of a candidate: it is left out, and the
evidence says so. Kinds that change the values of inputs are asked of all inputs together, then of
each where that is not answered, or not in finite numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import numpy as np

from layers.errors import ToolFailed
from layers.gates.correctness import reproducible_outputs
from layers.measure.launch import Served
from layers.session import Session
from layers.traffic.kinds import KINDS, Kind
from layers.traffic.mutations import Answer, Mutator, Taken
from layers.traffic.recorded import decode_response
from layers.trial.equivalence import Tensors, finite
from layers.triton.client import Client, Refused
from layers.triton.remote import RemoteDeployment

ASKED = 3  # requests of a kind, each sent twice
TIMEOUT_S = 20.0
HUNG = "DEADLINE_EXCEEDED"
MOST_STARTS = 4  # of the unmodified stack, after a kind has ended it

# Of several answers to one kind, the one that says most of it.
_FIRST: tuple[Answer, ...] = ("fatal", "unstable", "answered", "refused")
_SHARED: tuple[Answer, ...] = ("answered", "unstable", "fatal", "untried", "absent")


def asked(session: Session, deployment: Served) -> Mutator | None:
    """Return what makes changed requests, knowing how the unmodified stack takes each kind.

    None for a server that is not ours, which is not asked. `deployment` serves the unmodified stack;
    it may not survive this.
    """
    if isinstance(deployment, RemoteDeployment):
        return None
    traffic = session.traffic
    with _Asking(session, deployment) as asking:
        repeated = asking.repeated(traffic.requests[0])
        outputs = asking.outputs
        mutator = Mutator(traffic.requests, traffic.optional, outputs)
        taken = list(_all(asking, mutator, repeated))
    return Mutator(traffic.requests, traffic.optional, outputs, taken)


def _all(asking: _Asking, mutator: Mutator, repeated: frozenset[str]) -> Iterator[Taken]:
    """Yield how each kind is taken, those that a right model answers first."""
    rng = np.random.default_rng()  # nobody is judged by these
    for kind in sorted(KINDS, key=lambda kind: (not kind.usual, kind.far)):
        inputs = mutator.inputs(kind)
        if kind.values and not inputs:
            yield Taken(kind.name, "absent")
            continue
        whole = asking.taken(kind, _made(mutator, kind, (), rng), repeated)
        if (whole.answer == "answered" and whole.finite) or len(inputs) < 2:
            yield whole
            continue
        each = [
            asking.taken(kind, _made(mutator, kind, (name,), rng), repeated, (name,))
            for name in inputs
        ]
        yield from _together(kind, each)


def _made(
    mutator: Mutator, kind: Kind, inputs: Sequence[str], rng: np.random.Generator
) -> list[bytes]:
    made = (mutator.one(kind, rng, inputs) for _ in range(ASKED))
    return [message for message in made if message is not None]


def _together(kind: Kind, each: Sequence[Taken]) -> Iterator[Taken]:
    """Yield one record of all inputs whose changes are answered, and of those of any other end.

    Refusals stay apart, and answers that are not finite: in a request that is refused for one input,
    or answered by NaN throughout, nothing is seen of another.
    """
    yield from (one for one in each if one.answer == "refused" or not one.finite)
    for answer in _SHARED:
        same = [one for one in each if one.answer == answer and one.finite]
        if same:
            inputs = tuple(name for one in same for name in one.inputs)
            yield Taken(kind.name, answer, inputs)


class _Asking:
    """The unmodified stack as it is asked: started again where a request has ended it."""

    def __init__(self, session: Session, deployment: Served) -> None:
        self._session = session
        self._deployment: Served | None = deployment
        self._undo = ExitStack()  # closes what was started here
        self._starts = 0
        self.outputs: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._undo.close()

    def repeated(self, request: bytes) -> frozenset[str]:
        """Return the outputs that two answers to a recorded request share; keep the names of all.

        Raises ToolFailed where it is refused.
        """
        first, second = self._twice(request)
        self.outputs = tuple(sorted(first))
        return reproducible_outputs([(first, second)])

    def taken(
        self,
        kind: Kind,
        messages: Sequence[bytes],
        repeated: frozenset[str],
        inputs: tuple[str, ...] = (),
    ) -> Taken:
        """Return how requests of a kind are taken; `repeated` are the outputs that must repeat."""
        found: set[Answer] = set()
        is_finite = True
        for message in messages:
            one, numbers = self._answer(message, repeated)
            found.add(one)
            is_finite &= numbers
            if one in ("fatal", "untried"):
                break
        other: Answer = "untried" if found else "absent"
        answer: Answer = next((known for known in _FIRST if known in found), other)
        return Taken(kind.name, answer, inputs, is_finite)

    def _answer(self, message: bytes, repeated: frozenset[str]) -> tuple[Answer, bool]:
        """Send a request twice; return how it was taken, and whether all numbers were finite."""
        if self._deployment is None and self._starts >= MOST_STARTS:
            return "untried", True
        try:
            first, second = self._twice(message)
        except Refused as error:
            if error.code == HUNG or not self._alive():
                self._end()
                return "fatal", True
            return "refused", True
        same = reproducible_outputs([(first, second)])
        asked_for = repeated & first.keys()
        return ("answered" if asked_for <= same else "unstable"), finite(first)

    def _twice(self, message: bytes) -> tuple[Tensors, Tensors]:
        """Return the outputs of two answers to a request. Raises Refused."""
        with Client(self._running().grpc) as client:
            answers = [client.infer(message, TIMEOUT_S) for _ in range(2)]
        try:
            return decode_response(answers[0]), decode_response(answers[1])
        except ValueError as error:
            raise Refused("inference", "MALFORMED", str(error)) from error

    def _running(self) -> Served:
        """Return the running stack, started again where it has ended. Raises ToolFailed."""
        if self._deployment is None:
            self._starts += 1
            bench, view = self._session.bench, self._session.view
            deployment = bench.deploy(view, f"kinds-{self._starts}")
            self._undo.enter_context(deployment)
            self._deployment = deployment
        return self._deployment

    def _alive(self) -> bool:
        try:
            self._running().alive()
        except ToolFailed:
            return False
        return True

    def _end(self) -> None:
        """Stop what no longer answers."""
        if self._deployment is not None:
            self._deployment.begin_stop()
        self._undo.close()
        self._deployment = None
