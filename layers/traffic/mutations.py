"""Changed copies of recorded requests, so that outputs are compared on more than was recorded.

What is changed is listed in `layers.traffic.kinds`; shapes stay consistent, so that most of it a
model that is right must answer. How the unmodified stack takes each kind is found out once, before
there is a candidate: see `Taken`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from tritonclient.grpc import service_pb2

from layers.traffic.envelope import new_id
from layers.traffic.kinds import BY_NAME, KINDS, Draft, Kind
from layers.traffic.structure import Axis, Known, Tensors, candidate_axes, learned, sampled
from layers.traffic.tensors import decode, encode, make_typed, parse

TRIES = 12  # requests that are drawn until a kind finds something to change in one

# How the unmodified stack takes a kind: `unstable` does not repeat its answer, `fatal` ends it,
# `absent` has nothing to change in this recording, `untried` was not asked.
Answer: TypeAlias = Literal["answered", "refused", "unstable", "fatal", "absent", "untried"]
WHY: dict[Answer, str] = {
    "unstable": "the unmodified stack does not repeat its answer",
    "fatal": "the unmodified stack does not survive it, or hangs",
    "absent": "the recording has nothing to change so",
    "untried": "the unmodified stack was not asked",
}
EXACT_ONLY = "only an exact change is held to it"


@dataclass(frozen=True, slots=True)
class Taken:
    """How the unmodified stack takes one kind of change, in some inputs."""

    kind: str
    answer: Answer
    inputs: tuple[str, ...] = ()  # whose values change; (): all, or the request as a whole
    finite: bool = True  # whether all its answers were


class Mutated(NamedTuple):
    """A changed copy of a recorded request."""

    kind: Kind
    message: bytes


class Mutator:
    """Makes changed requests from recorded ones; the same seed makes the same requests."""

    def __init__(
        self,
        requests: Sequence[bytes],
        optional: Iterable[str] = (),
        outputs: Collection[str] = (),
        taken: Sequence[Taken] | None = None,
    ) -> None:
        """Read the recording when it is first needed; ValueError then on a malformed request.

        `optional` are inputs that a client may leave out, `outputs` those of the entry model.
        `taken` is how the unmodified stack takes each kind; None: nobody has asked it.
        """
        self._requests = requests
        self._optional = frozenset(optional)
        self.outputs = tuple(sorted(outputs))
        self.taken = None if taken is None else tuple(x for x in taken if x.kind in BY_NAME)

    @cached_property
    def known(self) -> Known:
        """What is known of the recording."""
        return learned(self._requests, self._optional, self.outputs)

    @cached_property
    def candidate_axes(self) -> list[Axis]:
        """The axes whose size counts the candidates; empty when no size varies."""
        return candidate_axes(self._sample)

    @cached_property
    def _sample(self) -> list[Tensors]:
        return sampled(self._requests)

    def inputs(self, kind: Kind) -> list[str]:
        """Return the inputs whose values a kind changes, each by itself."""
        drafts = [Draft(tensors, self.known) for tensors in self._sample] if kind.values else []
        return sorted({name for draft in drafts for name in draft.inputs(kind.values)})

    def requests(self, seed: int, count: int) -> list[bytes]:
        """Return `count` requests of the usual kinds, from a seed; each kind appears in its turn."""
        rng = np.random.default_rng(seed)
        usual = [Taken(kind.name, "answered") for kind in KINDS if kind.usual]
        return [one.message for one in self._in_turn(usual, count, rng)]

    def draw(self, rng: np.random.Generator, least: int, *, far: bool) -> list[Mutated]:
        """Draw requests of every kind that the unmodified stack takes, in random order.

        One of each, what it refuses too; fewer than `least` are made up of kinds that it answers.
        Without `far` none has values that are like none of the recording, or that any answer to was
        not finite.
        """
        taken = [one for one in self._known_to_be_taken() if far or _near(one)]
        refused = [one for one in taken if one.answer == "refused"]
        answered = [one for one in taken if one.answer == "answered"]
        made = list(self._round([*refused, *answered], rng))
        made += self._in_turn(_shuffled(answered, rng), least - len(made), rng)
        return [made[int(place)] for place in rng.permutation(len(made))]

    def one(
        self, kind: Kind, rng: np.random.Generator, inputs: Collection[str] = ()
    ) -> bytes | None:
        """Return a request of a kind, None where a dozen recorded ones have nothing to change so.

        `inputs` are those whose values may change, by default all.
        """
        only = frozenset(inputs) or None
        for _ in range(TRIES):
            template = self._requests[int(rng.integers(len(self._requests)))]
            changed = kind.change(rng, Draft(decode(template), self.known, only))
            if changed is not None:
                return _encoded(template, changed, rng)
        return None

    def not_tried(self, sent: Collection[str], *, far: bool) -> list[str]:
        """Say which kinds are not among those that were `sent`, and why, one line each."""
        lines = []
        for one in self._known_to_be_taken():
            why = WHY.get(one.answer)
            if why is None and not far and not _near(one):
                why = EXACT_ONLY
            if why is None and one.kind not in sent:
                why = "none was drawn"
            if why is not None:
                lines.append(f"{_named(one)}: {why}")
        return lines

    def _known_to_be_taken(self) -> Sequence[Taken]:
        """Return how kinds are taken; where nobody has asked, the usual ones are answered."""
        if self.taken is not None:
            return self.taken
        return [Taken(kind.name, "answered" if kind.usual else "untried") for kind in KINDS]

    def _in_turn(
        self, taken: Sequence[Taken], count: int, rng: np.random.Generator
    ) -> list[Mutated]:
        """Return `count` requests of some kinds in turn, fewer where none has anything to change."""
        made: list[Mutated] = []
        while taken and len(made) < count:
            found = list(islice(self._round(taken, rng), count - len(made)))
            if not found:
                break
            made += found
        return made

    def _round(self, taken: Sequence[Taken], rng: np.random.Generator) -> Iterator[Mutated]:
        """Yield one request of each kind that finds something to change."""
        for one in taken:
            kind = BY_NAME[one.kind]
            message = self.one(kind, rng, one.inputs)
            if message is not None:
                yield Mutated(kind, message)


def _near(one: Taken) -> bool:
    """Whether a change of any class is held to a kind."""
    return one.finite and not BY_NAME[one.kind].far


def _named(one: Taken) -> str:
    return f"{one.kind} of {', '.join(one.inputs)}" if one.inputs else one.kind


def _shuffled(taken: Sequence[Taken], rng: np.random.Generator) -> list[Taken]:
    return [taken[int(place)] for place in rng.permutation(len(taken))]


def _encoded(template: bytes, draft: Draft, rng: np.random.Generator) -> bytes:
    """Return a draft as a request, under an id of its own."""
    plain = encode(template, draft.tensors, new_id(rng))
    message = parse(service_pb2.ModelInferRequest, plain)
    if draft.outputs is not None:
        del message.outputs[:]
        for name in draft.outputs:
            message.outputs.add(name=name)
    for name, value in draft.parameters.items():
        match value:
            case bool():
                message.parameters[name].bool_param = value
            case int():
                message.parameters[name].int64_param = value
            case str():
                message.parameters[name].string_param = value
    if draft.typed:
        make_typed(message)
    data: bytes = message.SerializeToString()
    return data
