"""The calls that a correctness check makes: fresh draws, changed objects, sizes and content.

Everything is drawn as it is needed, hence after the candidate has loaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from layers.callables import codec, elements, probes, rows
from layers.callables.audit import Sample
from layers.callables.cell import How
from layers.callables.compare import BASE, EMPTY, LARGE_BATCH
from layers.callables.maker import Drawn, Maker
from layers.callables.station import Record
from layers.errors import InvalidInput

REPEATS = 4  # fresh draws of the timed size, and as many again for a metric
METRIC_DRAWS = 12
# Draws whose most unusual rows are tried together. What one row in 100,000 is was missed in 5 of 300
# judgements of a batch of 4,000 with 64 draws, in none of 200 with these.
POOLED_DRAWS, POOLED_BYTES = 256, 1 << 25
EXCHANGED = 2  # pairs of rows of each state that change places
SLOW_CALL_S = 0.5  # larger batches are left out where the reference takes longer
# Beyond this size rows have no number of 16 bits. It is tried where the reference, by its time at
# two sizes, takes no longer than this, and what goes in and comes out no more memory.
SIXTEEN_BITS = 1 << 16
LARGE_CALL_S, LARGE_BYTES, LARGE_LEAVES = 0.15, 1 << 25, 64
NOISY_POWER = 1.5  # of the size that the time of one call may seem to grow by where it grows by one
POISONS = (0xFF, 0x41)  # NaN in every float type; 12.07 in float32
BY_POSITION = ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD")  # kinds of parameters

Change: TypeAlias = Callable[[probes.Inputs], probes.Inputs | None]


@dataclass(frozen=True, slots=True)
class Case:
    """One call: its inputs, and how they get into the processes."""

    name: str
    inputs: Drawn
    group: str = BASE
    how: How = "fresh"
    kept: tuple[str, ...] = ()  # arguments that stay the very same objects
    poison: int | None = None
    optional: bool = False  # left out where the reference raises
    timed: bool = False  # of the timed size, as drawn: its time and its metric count
    again: bool = False  # the first case once more
    batch: int | None = None  # the size, where it is another one than the timed
    by_position: tuple[str, ...] = ()  # arguments that are not given by name, in this order
    left_out: tuple[str, ...] = ()  # arguments that are not given


@dataclass
class Calls:
    """What the calls of one station have shown so far."""

    reference_s: list[float] = field(default_factory=list)  # wall time at the timed size
    candidate_s: list[float] = field(default_factory=list)
    seconds: dict[int, float] = field(default_factory=dict)  # of the reference, at other sizes
    sizes: list[int] = field(default_factory=list)  # bytes of the outputs' leaves
    leaves: int = 0  # of one call's outputs
    written_bytes: int = 0  # of outputs that are no views of arguments
    scored: list[Sample] = field(default_factory=list)  # of the timed size, as drawn
    others: dict[str, list[Sample]] = field(default_factory=dict)  # for a metric, by what they are
    skipped: int = 0  # cases that the reference does not take


class Cases:
    """The cases of one judgement, drawn as they are needed."""

    def __init__(self, maker: Maker, rng: np.random.Generator, record: Record) -> None:
        """`rng` chooses sizes, rows and elements."""
        self._maker, self._rng, self._record = maker, rng, record
        self._settings = maker.settings
        self._first = self.drawn()

    def drawn(self) -> Drawn:
        """Return a draw of the timed size."""
        inputs = self._maker.draw()
        if inputs is None:
            raise InvalidInput("the inputs' maker drew nothing")
        return inputs

    def fresh(self, draws: int) -> Iterator[Case]:
        """Yield fresh draws of the timed size; unwritten outputs show in the first two."""
        yield Case("fresh inputs", self._first, poison=POISONS[0], timed=True)
        second = self.drawn()
        if codec.encode(second) == codec.encode(self._first):
            raise InvalidInput(
                "the inputs' maker draws the same inputs twice",
                hint="draw from rng: what never varies cannot tell work from memory",
            )
        yield Case("fresh inputs", second, poison=POISONS[1], timed=True)
        for n in range(draws):
            yield Case(f"fresh inputs, call {n + 3}", self.drawn(), timed=True)

    def written(self) -> Case:
        """Return the case whose results are written into."""
        return Case("results that are written to", self.drawn())

    def calls(self, parameters: Sequence[tuple[str, str, bool]]) -> Iterator[Case]:
        """Yield calls as other callers make them: by position, and without what may be left out.

        `parameters` are the reference's: (name, kind, whether it may be left out).
        """
        inputs = self.drawn()
        known = [(name, kind) for name, kind, _ in parameters if name in inputs]
        if len(known) < len(inputs):
            return  # it takes what it is given, or does not tell
        ahead: list[str] = []
        for name, kind, _ in parameters:
            if name not in inputs or kind not in BY_POSITION:
                break
            ahead.append(name)
        if ahead:
            by_position = tuple(ahead)
            yield Case("arguments by position", inputs, by_position=by_position, optional=True)
        if len(ahead) > 1:
            some = tuple(ahead[: len(ahead) // 2])
            yield Case(
                "arguments partly by position", self.drawn(), by_position=some, optional=True
            )
        spare = tuple(name for name, _, default in parameters if default and name in inputs)
        if spare:
            yield Case("arguments left out", self.drawn(), left_out=spare, optional=True)

    def again(self) -> Iterator[Case]:
        """Yield the first case once more, after all others."""
        yield Case("the first inputs again", self._first, again=True)

    def objects(self, seen: Calls) -> Iterator[Case]:
        """Yield the same objects with other content, other state beside the same objects.

        `seen` is read as it fills.
        """
        state = self._settings.state
        inputs = self.drawn()
        yield Case("new objects", inputs)
        for n in range(2):
            inputs = self.drawn()
            yield Case(f"same buffers, new content {n + 1}", inputs, how="refill")
        if state:
            other = self.drawn()
            varying = tuple(name for name in other if name not in state)
            inputs = {**inputs, **{name: other[name] for name in state}}
            yield Case("new state, same inputs", inputs, kept=varying)
            other = self.drawn()
            inputs = {**other, **{name: inputs[name] for name in state}}
            yield Case("same state, new inputs", inputs, kept=state)
            other = self.drawn()
            inputs = {**inputs, **{name: other[name] for name in state}}
            yield Case("state's buffers, new content", inputs, how="refill")
        yield from self._small_changes(inputs, seen)

    def _small_changes(self, inputs: Drawn, seen: Calls) -> Iterator[Case]:
        """Yield small changes, in the same buffers: each one beside those before it."""
        settings, rng = self._settings, self._rng
        moved = rows.permuted(inputs, settings.state, settings.batch, rng)
        if moved is not None:
            inputs = dict(moved)
            yield Case("permuted rows", inputs, how="refill")
        for _ in range(2):
            row = int(rng.integers(settings.batch))
            changed = rows.one_row_of(inputs, self.drawn(), settings.state, settings.batch, row)
            if changed is not None:
                inputs = dict(changed)
                yield Case(f"row {row} of another draw", inputs, how="refill")
        other = self.drawn()
        for what, change in self._single_changes(inputs, other):
            changed = change(inputs)
            if changed is None:
                continue
            skipped = seen.skipped
            yield Case(what, dict(changed), how="refill", optional=True)
            if seen.skipped == skipped:  # else it is nothing that the reference is for
                inputs = dict(changed)
        if settings.state:
            inputs = {**self.drawn(), **{name: inputs[name] for name in settings.state}}
            yield Case("changed state, new inputs", inputs, how="refill")

    def _single_changes(self, inputs: Drawn, other: Drawn) -> Iterator[tuple[str, Change]]:
        """Yield names and changes: of single elements of every input, of rows of the state."""
        rng = self._rng
        for name in inputs:
            for part, where in enumerate(elements.PARTS):
                yield (
                    f"{where} element of {name} changed",
                    partial(elements.one_element, other=other, name=name, rng=rng, part=part),
                )
        for name in self._settings.state * EXCHANGED:
            yield (
                f"two rows of {name} exchanged",
                partial(elements.rows_exchanged, other=other, name=name, rng=rng),
            )

    def unusual(self) -> Iterator[Case]:
        """Yield a batch of the most unusual rows of many draws, where rows are independent."""
        settings, first = self._settings, self.drawn()
        if not rows.independent_rows(first, settings.state, settings.batch):
            return
        size = sum(leaf.array.nbytes for leaf in first.values())
        count = min(POOLED_DRAWS, max(2, POOLED_BYTES // max(size, 1)))
        draws = [first, *(self.drawn() for _ in range(count - 1))]
        found = rows.unusual_rows(draws, settings.state, settings.batch, self._rng)
        if found is not None:
            yield Case(f"the most unusual rows of {count} draws", dict(found))

    def sizes(self, seen: Calls) -> Iterator[Case]:
        """Yield other batch sizes: those that the maker lists, or one, odd, prime, near and larger ones.

        And none, where maker and reference take a batch of no row. `seen` is read as it fills.
        """
        batch, listed = self._settings.batch, self._settings.batches
        if listed is not None:
            yield from self._of_sizes(listed)
            return
        held_out = self._rng.integers(2, max(4, 2 * batch), 2).tolist()
        odd, double = min(7, batch + 2), 2 * batch + 3
        yield from self._of_sizes((1, 2, odd, 31, batch - 1, batch + 1, *held_out))
        if float(np.median(seen.reference_s)) < SLOW_CALL_S:
            yield from self._of_sizes((double,))
        large = SIXTEEN_BITS + int(self._rng.integers(1, 256))
        if double < large and self._affordable(seen, double, large):
            yield from self._of_sizes((large,), LARGE_BATCH)
        yield from self._empty()

    def _of_sizes(self, sizes: Iterable[int], group: str = BASE) -> Iterator[Case]:
        """Yield one draw of each size."""
        for size in dict.fromkeys(n for n in sizes if n >= 1 and n != self._settings.batch):
            inputs = self._maker.draw(size, may_fail=True)
            if inputs is None:
                self._record.warn(f"probe not run: batch {size} (the maker raises)")
                continue
            name = f"held-out batch {size}"
            yield Case(name, inputs, group=group, batch=size, poison=POISONS[0])

    def _empty(self) -> Iterator[Case]:
        """Yield a batch of no row. Whoever cannot make one, or raises, is asked no more."""
        inputs = self._maker.draw(0, may_fail=True)
        if inputs is not None:
            yield Case("empty batch", inputs, group=EMPTY, optional=True, batch=0)

    def _affordable(self, seen: Calls, double: int, large: int) -> bool:
        """Whether a very large batch takes little time and memory, by what smaller ones took."""
        batch, small_s = self._settings.batch, float(np.median(seen.reference_s))
        double_s = seen.seconds.get(double, 0.0)
        if not double_s or not small_s or seen.leaves > LARGE_LEAVES:
            return False
        power = math.log(double_s / small_s) / math.log(double / batch)
        power = power if power > NOISY_POWER else 1.0
        moved = sum(seen.sizes) + sum(leaf.array.nbytes for leaf in self._first.values())
        seconds = double_s * (large / double) ** power
        return seconds < LARGE_CALL_S and moved * large / batch < LARGE_BYTES

    def contents(self) -> Iterator[Case]:
        """Yield changed content, and inputs that lie in memory in another way."""
        settings = self._settings
        for content in probes.contents(self.drawn(), settings.state, settings.refused, self._rng):
            yield Case(f"{content.name} inputs", dict(content.inputs), group=content.name)
        if settings.refused:
            self._record.warn(
                f"probes not run: {', '.join(sorted(settings.refused))} (make.probes)"
            )
        yield Case("read-only inputs", self.drawn(), how="read_only", optional=True)
        yield from self._layouts()

    def _layouts(self) -> Iterator[Case]:
        """Yield inputs that lie in memory in every way that arrays may, where there are arrays."""
        for layout in codec.LAYOUTS:
            inputs = self.drawn()
            dimensions = max(leaf.array.ndim for leaf in inputs.values())
            if dimensions < (2 if layout in codec.OF_COLUMNS else 1):
                continue
            tensors = any(leaf.kind == "torch" for leaf in inputs.values())
            laid_out = {n: replace(x, layout=layout) for n, x in inputs.items()}
            # numpy adds up rows that lie apart as it does all others: the same bits.
            group = BASE if layout == codec.ROWS and not tensors else layout
            yield Case(f"inputs in memory: {layout}", laid_out, group=group, optional=True)
