"""Calls between the timed ones of a launch: content, state and sizes that timed calls never have.

Code that is timed sees the same shapes, the same state and usual content again and again. Were that
all, it could tell by it that nothing else is going to be asked, and do less. So both arms are called
on other inputs too, at places that nobody can know. These calls are compared like any other; their
time is not part of the gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from layers.base import ChangeClass
from layers.callables import codec, elements, probes
from layers.callables.compare import BASE, Answers, Failure, Judge, gate
from layers.callables.maker import Drawn, Maker, drawn, ours
from layers.callables.process import Process
from layers.errors import InvalidInput
from layers.evidence import Gate, GateResult

EVERY = 16  # timed calls for one more kind of such calls among them, and one after them
NEAR = 0.2  # how far from the timed size, as a share of it, a size is near it
REPEATS = 3  # calls of the near size, whose time is told by their median
SHORT_PAIR = 8  # timed calls of a pair below which a call is long, and is not repeated
SPECIAL = ("nan", "inf")  # what fast paths are most likely to forget
STATE, ELEMENT, BESIDE, ANYWHERE = "state", "element", "size beside", "any size"


@dataclass(frozen=True, slots=True)
class Stray:
    """One such call: what is handed over before it, all else staying as it is."""

    name: str
    inputs: Drawn  # in new objects, as before a timed call
    refilled: Drawn = field(default_factory=dict)  # before, into the objects that are there
    group: str = BASE
    size: int = 0  # of the batch, where it is another one and its time counts


@dataclass(frozen=True, slots=True)
class Told:
    """What both arms returned in such a call, kept until float64 can tell which is nearer."""

    stray: Stray
    inputs: Drawn  # all arguments
    baseline: Answers
    candidate: Answers


class Strays:
    """The calls of one launch: planned beforehand, drawn when they are due.

    `plan` has their kinds by the number of timed calls before them.
    """

    def __init__(self, maker: Maker, rng: np.random.Generator, calls: int, pairs: int) -> None:
        """Plan for a launch of so many pairs of so many calls."""
        self._maker, self._rng = maker, rng
        self._settings = maker.settings
        self._repeats = REPEATS if calls >= SHORT_PAIR else 1
        self._places = dict(zip((BESIDE, ANYWHERE), self._sizes(), strict=True))
        self.plan = self._planned(calls * pairs)

    def _sizes(self) -> tuple[int | None, int | None]:
        """Return a size near the timed one and any other one; None where the maker has none."""
        batch, listed, rng = self._settings.batch, self._settings.batches, self._rng
        if listed is None:
            step = int(rng.integers(1, max(1, int(NEAR * batch)) + 1))
            less = step < batch and rng.random() < 1 / 2
            beside = batch - step if less else batch + step
            return beside, int(rng.integers(1, batch)) if batch > 1 else None
        others = [size for size in listed if size != batch]
        near = [size for size in others if self._is_near(size)]
        return _one_of(near, rng), _one_of(others, rng)

    def _planned(self, slots: int) -> dict[int, list[str]]:
        """Return the plan of a launch of so many timed calls.

        Sizes come early: code that counts calls of one size sees many after them. Unusual content
        comes anywhere, and once more after all timed calls, when nothing else seems to follow.
        """
        refused, rng = self._settings.refused, self._rng
        contents = [str(kind) for kind in rng.permutation([*probes.KINDS]) if kind not in refused]
        rest = [str(kind) for kind in rng.permutation([ELEMENT, ANYWHERE, *contents])]
        first = [*([STATE] if self._settings.state else []), BESIDE]
        share = slots // EVERY
        if share > len(SPECIAL):
            contents.sort(key=lambda kind: kind not in SPECIAL)
        plan = {slots: contents[: max(1, share)]}
        for kind in [*first, *rest[:share]]:
            within = slots // 4 if kind in (BESIDE, ANYWHERE) else slots
            plan.setdefault(int(rng.integers(max(1, within))), []).append(kind)
        return plan

    def visits(self, sent: Drawn) -> list[Stray]:
        """Return one call of each size to come, for what is done once per size before it is timed."""
        kinds = {kind for due in self.plan.values() for kind in due}
        sizes = [size for kind, size in self._places.items() if kind in kinds and size is not None]
        return [stray for size in sizes for stray in self._of_size(size, sent, 1)]

    def due(self, kind: str, sent: Drawn) -> list[Stray]:
        """Return the calls of one kind; `sent` are the arguments that the arms have."""
        if kind == STATE:
            state = drawn(self._maker.state())
            return [Stray("state's buffers, new content", drawn(self._maker.varying()), state)]
        if kind == ELEMENT:
            return self._element(sent)
        if kind in self._places:
            return self._elsewhere(kind, sent)
        inputs = drawn(self._maker.varying())
        others = probes.KINDS.keys() - {kind}
        changed = probes.contents(inputs, (), others, self._rng)
        return [Stray(f"{x.name} inputs", dict(x.inputs), group=x.name) for x in changed]

    def _varying(self, sent: Drawn) -> Drawn:
        return {name: leaf for name, leaf in sent.items() if name not in self._settings.state}

    def _element(self, sent: Drawn) -> list[Stray]:
        """Return a call with one element changed in its buffer, of the state or of what varies."""
        name, part = str(self._rng.choice(list(sent))), int(self._rng.integers(3))
        other = self._maker.draw(may_fail=True)
        if other is None:
            return []
        found = elements.one_element(sent, other, name, self._rng, part)
        if found is None:
            return []
        what, changed = f"one element of {name} changed", {name: found[name]}
        if name in self._settings.state:
            return [Stray(what, drawn(self._maker.varying()), changed)]
        return [Stray(what, {}, self._varying(sent) | changed)]

    def _elsewhere(self, kind: str, sent: Drawn) -> list[Stray]:
        """Return calls of another size, and one of the timed size that ends what they changed."""
        size = self._places[kind]
        repeats = self._repeats if kind == BESIDE else 1
        found = [] if size is None else self._of_size(size, sent, repeats)
        return [*found, Stray("fresh inputs", drawn(self._maker.varying()))] if found else []

    def tells(self, stray: Stray) -> bool:
        """Whether a call is of a size near the timed one: a change that gains is no slower there."""
        return stray.size == self._places[BESIDE] and self._is_near(stray.size)

    def _is_near(self, size: int) -> bool:
        return 2 * abs(size - self._settings.batch) <= self._settings.batch

    def _of_size(self, size: int, sent: Drawn, repeats: int) -> list[Stray]:
        """Return calls of another size; none where the state would have to be another one too."""
        found: list[Stray] = []
        for _ in range(repeats):
            inputs = self._maker.draw(size, may_fail=True)
            if inputs is None or any(
                _form(inputs[name]) != _form(sent[name]) for name in self._settings.state
            ):
                return []
            found.append(Stray(f"batch {size}", self._varying(inputs), size=size))
        return found


def _one_of(sizes: Sequence[int], rng: np.random.Generator) -> int | None:
    return int(rng.choice(sizes)) if sizes else None


def _form(leaf: codec.Leaf) -> tuple[str, str, tuple[int, ...]]:
    return leaf.kind, leaf.dtype, leaf.array.shape


def refereed(told: Sequence[Told], referee: Process) -> Gate:
    """Compare calls of unusual content with float64 at hand: there the candidate may be nearer."""
    judge = Judge(ChangeClass.REORDER)
    for one in told:
        referee.put(codec.encode(probes.upcast(one.inputs)))
        answer = ours(referee.call)
        truth = None if answer.raised is not None else Answers.of(answer.outputs())
        where = f"{one.stray.name}, between timed calls"
        try:
            failure = judge.add(where, one.baseline, one.candidate, truth, one.stray.group)
        except InvalidInput as error:  # an object array of something else
            failure = Failure("dtype_differs", f"{where}: {error.message}")
        if failure:
            return gate("timed contents", GateResult.FAIL, failure.reason, failure.detail)
    return gate("timed contents", GateResult.PASS, "within_limits", f"{judge.calls} unusual calls")
