"""The calls that a correctness check makes: fresh draws, changed objects, sizes and content.

Everything is drawn as it is needed, hence after the candidate has loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from layers.callables import codec, probes, rows
from layers.callables.cell import How
from layers.callables.compare import BASE
from layers.callables.maker import Drawn, Maker
from layers.callables.station import Record
from layers.errors import InvalidInput

REPEATS = 4  # fresh draws of the timed size, and as many again for a metric
METRIC_DRAWS = 12
POOLED_DRAWS, POOLED_BYTES = 64, 1 << 25  # of draws whose most unusual rows are tried together
ELEMENTS = 4  # inputs of which single elements are changed
SLOW_CALL_S = 0.5  # larger batches are left out where the reference takes longer
POISONS = (0xFF, 0x41)  # NaN in every float type; 12.07 in float32


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

    def again(self) -> Iterator[Case]:
        """Yield the first case once more, after all others."""
        yield Case("the first inputs again", self._first, again=True)

    def objects(self) -> Iterator[Case]:
        """Yield the same objects with other content, other state beside the same objects."""
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
        yield from self._small_changes(inputs)

    def _small_changes(self, inputs: Drawn) -> Iterator[Case]:
        """Yield small changes, in the same buffers."""
        settings, rng = self._settings, self._rng
        moved = rows.permuted(inputs, settings.state, settings.batch, rng)
        if moved is not None:
            inputs = dict(moved)
            yield Case("permuted rows", inputs, how="refill")
        for _ in range(2):
            row = int(rng.integers(settings.batch // 2, settings.batch))
            changed = rows.one_row_of(inputs, self.drawn(), settings.state, settings.batch, row)
            if changed is not None:
                inputs = dict(changed)
                yield Case(f"row {row} of another draw", inputs, how="refill")
        for name in probes.changeable(inputs)[:ELEMENTS]:
            inputs = dict(probes.one_element(inputs, name, rng))
            yield Case(f"one element of {name} changed", inputs, how="refill")

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

    def sizes(self, call_s: float) -> Iterator[Case]:
        """Yield other batch sizes: those that the maker lists, or one, odd, prime, near and larger ones."""
        batch, listed = self._settings.batch, self._settings.batches
        if listed is not None:
            sizes: Iterable[int] = listed
        else:
            held_out = self._rng.integers(2, max(4, 2 * batch), 2).tolist()
            odd = min(7, batch + 2)
            sizes = (1, 2, odd, 31, batch - 1, batch + 1, *held_out)
            if call_s < SLOW_CALL_S:
                sizes = (*sizes, 2 * batch + 3)
        for size in dict.fromkeys(n for n in sizes if n >= 1 and n != batch):
            inputs = self._maker.draw(size, may_fail=True)
            if inputs is None:
                self._record.warn(f"probe not run: batch {size} (the maker raises)")
                continue
            yield Case(f"held-out batch {size}", inputs)

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
        yield Case("non-contiguous inputs", self.drawn(), how="strided", optional=True)
