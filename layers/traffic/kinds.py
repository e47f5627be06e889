"""The kinds of changes that make a mutated request of a recorded one. Pure; a list of small functions.

Each takes a generator of draws and a draft and returns a changed draft, or None where the draft has
nothing that it changes. Everything in them is drawn anew: no constant marks a mutated request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from layers.traffic import strings
from layers.traffic.structure import INTEGERS, Known, Tensors
from layers.traffic.tensors import Array

CHANGED_SHARE = 0.2  # of the elements of a tensor that one mutation touches
MANY = 3  # times the most candidates that were recorded
MOST_ROWS = 4  # of a batch that is made of one request
BEYOND_SHARE = 0.1  # of the recorded range, on either side of it
FLOATS, FLAGS, STRINGS = "f", "b", "O"  # kinds of numpy's dtypes, beside INTEGERS
TIMEOUT_US = 60_000_000
# Where narrower types, tables and sums of them end; a type's own ends are added.
EDGES = (0, -1, 1, *(2**bits + by for bits in (7, 8, 15, 16, 31, 32) for by in (-1, 0)))


@dataclass(frozen=True, slots=True)
class Draft:
    """A request under change: its tensors, and what it asks for besides them."""

    tensors: Tensors
    known: Known
    only: frozenset[str] | None = None  # inputs whose values may change; None: all
    outputs: Sequence[str] | None = None  # that are asked for; None: as recorded
    parameters: Mapping[str, bool | int | str] = field(default_factory=dict)
    typed: bool = False  # sent in typed contents

    def inputs(self, values: str) -> list[str]:
        """Return the inputs of some kinds of dtypes that have values which may change."""
        return [
            name
            for name, array in self.tensors.items()
            if array.dtype.kind in values
            and array.size
            and name not in self.known.structural
            and (self.only is None or name in self.only)
        ]

    def with_tensors(self, changed: Mapping[str, Array]) -> Draft:
        """Return the draft with other values of some inputs."""
        return replace(self, tensors={**self.tensors, **changed})


Change: TypeAlias = Callable[[np.random.Generator, Draft], Draft | None]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of change, by its name."""

    name: str
    change: Change
    values: str = ""  # kinds of dtypes whose inputs it changes, each by itself; "": the request
    far: bool = False  # its values are like none that was recorded: only exact is held to them
    sized: bool = False  # it changes sizes, and with them what a request costs
    usual: bool = True  # a right model answers it; of others the unmodified stack is asked first


def each(values: str, change: Callable[[np.random.Generator, Array, str, Known], Array]) -> Change:
    """Return what changes every input of some kinds of dtypes by itself."""

    def changed(rng: np.random.Generator, draft: Draft) -> Draft | None:
        names = draft.inputs(values)
        if not names:
            return None
        return draft.with_tensors(
            {name: change(rng, draft.tensors[name], name, draft.known) for name in names}
        )

    return changed


def some(rng: np.random.Generator, values: Array) -> NDArray[np.bool_]:
    """Draw which elements are touched: a share of them, and one at least."""
    touched: NDArray[np.bool_] = np.array(rng.random(values.shape) < CHANGED_SHARE)
    touched.flat[int(rng.integers(values.size))] = True
    return touched


def drawn(rng: np.random.Generator, values: Array, pool: Array) -> Array:
    """Return the values with some elements drawn from a pool of their dtype."""
    return np.where(some(rng, values), rng.choice(pool, size=values.shape), values)


# --- numbers -----------------------------------------------------------------------------------


def _moved(rng: np.random.Generator, values: Array, _name: str, _known: Known) -> Array:
    """Move some floats by a few percent, to zero or to the other sign; they stay finite."""
    factor: NDArray[Any] = 1 + 0.05 * rng.standard_normal(values.shape)
    factor = np.where(rng.random(values.shape) < 0.1, rng.choice([0.0, -1.0]), factor)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = (values * factor).astype(values.dtype)
    return np.where(some(rng, values) & np.isfinite(moved), moved, values)


def _equal(rng: np.random.Generator, values: Array, _name: str, _known: Known) -> Array:
    """Give all elements the value of one of them."""
    return np.full_like(values, values.flat[int(rng.integers(values.size))])


def _nan(rng: np.random.Generator, values: Array, _name: str, _known: Known) -> Array:
    return drawn(rng, values, np.array([np.nan], dtype=values.dtype))


def _infinite(rng: np.random.Generator, values: Array, _name: str, _known: Known) -> Array:
    return drawn(rng, values, np.array([np.inf, -np.inf], dtype=values.dtype))


def _float_edges(rng: np.random.Generator, values: Array, _name: str, _known: Known) -> Array:
    """Draw both zeros, the smallest and the largest numbers of the dtype."""
    ends = np.finfo(values.dtype)
    pool = [0.0, -0.0, ends.smallest_subnormal, -ends.smallest_subnormal, ends.max, ends.min]
    return drawn(rng, values, np.array(pool, dtype=values.dtype))


def _flipped(rng: np.random.Generator, values: Array, _name: str, _known: Known) -> Array:
    flipped: Array = values ^ some(rng, values)
    return flipped


def _of_others(rng: np.random.Generator, values: Array, _name: str, _known: Known) -> Array:
    """Draw values that other elements of the same tensor have."""
    return drawn(rng, values, values.ravel())


def _between(rng: np.random.Generator, values: Array, name: str, known: Known) -> Array:
    """Draw values from the least to the largest one that was recorded."""
    least, largest = _range(values, name, known)
    pool = rng.integers(least, largest, size=values.size, dtype=values.dtype, endpoint=True)
    return drawn(rng, values, pool)


def _beyond(rng: np.random.Generator, values: Array, name: str, known: Known) -> Array:
    """Draw values just beyond the least and the largest one that was recorded."""
    least, largest = _range(values, name, known)
    width = max(1, int((largest - least) * BEYOND_SHARE))
    steps = [1, *(1 + int(rng.random() * width) for _ in range(8))]
    pool = [end + sign * step for end, sign in ((least, -1), (largest, 1)) for step in steps]
    return drawn(rng, values, _held(pool, values))


def _integer_edges(rng: np.random.Generator, values: Array, _name: str, _known: Known) -> Array:
    """Draw values at which narrower types, tables and sums end."""
    ends = np.iinfo(values.dtype)
    pool = [*EDGES, int(ends.min), int(ends.max)]
    return drawn(rng, values, _held([x for x in pool if ends.min <= x <= ends.max], values))


def _range(values: Array, name: str, known: Known) -> tuple[int, int]:
    return known.whole.get(name, (int(values.min()), int(values.max())))


def _held(pool: Sequence[int], values: Array) -> Array:
    """Return whole numbers as the dtype of `values`, those that it does not have at its ends."""
    ends = np.iinfo(values.dtype)
    return np.array([min(max(x, int(ends.min)), int(ends.max)) for x in pool], dtype=values.dtype)


# --- strings -----------------------------------------------------------------------------------


def _replaced(make: strings.Make) -> Change:
    """Return what replaces some strings."""

    def change(rng: np.random.Generator, values: Array, _name: str, _known: Known) -> Array:
        copy = values.copy()
        for index in np.flatnonzero(some(rng, values)):
            copy.flat[index] = make(rng, values.flat[index])
        return copy

    return each(STRINGS, change)


# --- sizes -------------------------------------------------------------------------------------


def _there(draft: Draft) -> tuple[list[tuple[str, int]], int]:
    """Return the axes of a draft's candidates, and how many there are; 0 without such axes."""
    axes = [(name, axis) for name, axis in draft.known.candidate_axes if name in draft.tensors]
    return axes, draft.tensors[axes[0][0]].shape[axes[0][1]] if axes else 0


def _taken(draft: Draft, axes: Sequence[tuple[str, int]], chosen: NDArray[np.int64]) -> Draft:
    """Select along axes, the same in every input that has one."""
    changed = dict(draft.tensors)
    for name, axis in axes:
        changed[name] = np.take(changed[name], chosen, axis=axis)
    return draft.with_tensors(changed)


def _permuted(rng: np.random.Generator, draft: Draft) -> Draft | None:
    """Put the candidates in another order, the same one in every input."""
    axes, count = _there(draft)
    return _taken(draft, axes, rng.permutation(count)) if count > 1 else None


def _keep(wanted: int) -> Change:
    """Return what keeps some of the candidates, where there are more."""

    def change(rng: np.random.Generator, draft: Draft) -> Draft | None:
        axes, count = _there(draft)
        return _taken(draft, axes, rng.permutation(count)[:wanted]) if count > wanted else None

    return change


def _many(rng: np.random.Generator, draft: Draft) -> Draft | None:
    """Put candidates of further requests behind each other: more than any request had."""
    axes, count = _there(draft)
    if not count or len(dict(axes)) < len(axes):
        return None
    wanted = int(rng.integers(draft.known.largest + 1, MANY * draft.known.largest + 1))
    pieces = {name: [draft.tensors[name]] for name, _ in axes}
    for _ in range(MANY * draft.known.largest):
        if count >= wanted:
            break
        other = draft.known.another(rng)
        if not all(_fits(other.get(name), draft.tensors[name], axis) for name, axis in axes):
            continue
        for name, _ in axes:
            pieces[name].append(other[name])
        count += other[axes[0][0]].shape[axes[0][1]]
    if count <= draft.known.largest:
        return None
    put = {name: np.concatenate(pieces[name], axis=axis) for name, axis in axes}
    return _taken(draft.with_tensors(put), axes, np.arange(min(count, wanted)))


def _fits(other: Array | None, array: Array, axis: int) -> bool:
    """Whether two arrays can be put behind each other along an axis."""
    if other is None or other.dtype != array.dtype or other.ndim != array.ndim:
        return False
    return _but(other.shape, axis) == _but(array.shape, axis)


def _but(shape: Sequence[int], axis: int) -> list[int]:
    return [*shape[:axis], *shape[axis + 1 :]]


def _other_size(rng: np.random.Generator, draft: Draft) -> Draft | None:
    """Keep some elements of a dimension that is not the candidates', in their order."""
    known = [
        axes for axes in draft.known.other_axes if all(name in draft.tensors for name, _ in axes)
    ]
    if not known:
        return None
    axes = known[int(rng.integers(len(known)))]
    count = draft.tensors[axes[0][0]].shape[axes[0][1]]
    if count < 2:
        return None
    kept = rng.permutation(count)[: int(rng.integers(1, count))]
    return _taken(draft, axes, np.sort(kept))


def _batch(rng: np.random.Generator, draft: Draft) -> Draft | None:
    """Put variants of one request, of equal sizes, into one batch."""
    if not draft.known.one_row or not draft.tensors:
        return None
    rows = [draft.tensors]
    for _ in range(int(rng.integers(1, MOST_ROWS))):
        moved = each(FLOATS, _moved)(rng, draft) or draft
        rows.append((_permuted(rng, moved) or moved).tensors)
    return draft.with_tensors(
        {name: np.concatenate([row[name] for row in rows]) for name in draft.tensors}
    )


# --- the request -------------------------------------------------------------------------------


def _left_out(rng: np.random.Generator, draft: Draft) -> Draft | None:
    """Leave out some of the inputs that a client need not send; never all inputs."""
    there = [name for name in draft.known.optional if name in draft.tensors]
    count = min(len(there), len(draft.tensors) - 1)
    if count < 1:
        return None
    gone = set(rng.permutation(there)[: int(rng.integers(1, count + 1))].tolist())
    return replace(draft, tensors={n: v for n, v in draft.tensors.items() if n not in gone})


def _outputs(rng: np.random.Generator, draft: Draft) -> Draft | None:
    """Ask for some of the outputs by name, in any order."""
    names = list(draft.known.outputs)
    if not names:
        return None
    count = int(rng.integers(1, len(names) + 1))
    return replace(draft, outputs=rng.permutation(names)[:count].tolist())


def _parameters(rng: np.random.Generator, draft: Draft) -> Draft | None:
    """Add parameters that nobody knows."""
    values: list[bool | int | str] = [
        bool(rng.random() < 0.5),
        int(rng.integers(1 << 31)),
        strings.word(rng),
    ]
    return replace(draft, parameters={strings.word(rng): value for value in values})


def _urgent(rng: np.random.Generator, draft: Draft) -> Draft | None:
    """Ask with a priority, and with a time limit that no answer needs."""
    priority, timeout = int(rng.integers(1, 3)), TIMEOUT_US + int(rng.integers(TIMEOUT_US))
    return replace(draft, parameters={"priority": priority, "timeout": timeout})


def _in_typed_contents(_rng: np.random.Generator, draft: Draft) -> Draft | None:
    return replace(draft, typed=True) if draft.known.typed else None


KINDS = (
    Kind("floats moved", each(FLOATS, _moved), FLOATS),
    Kind("floats equal", each(FLOATS, _equal), FLOATS),
    Kind("floats at their ends", each(FLOATS, _float_edges), FLOATS, far=True, usual=False),
    Kind("floats infinite", each(FLOATS, _infinite), FLOATS, far=True, usual=False),
    Kind("floats missing", each(FLOATS, _nan), FLOATS, far=True, usual=False),
    Kind("flags turned", each(FLAGS, _flipped), FLAGS),
    Kind("integers of others", each(INTEGERS, _of_others), INTEGERS),
    Kind("integers between", each(INTEGERS, _between), INTEGERS, usual=False),
    Kind("integers beyond", each(INTEGERS, _beyond), INTEGERS, usual=False),
    Kind("integers at ends", each(INTEGERS, _integer_edges), INTEGERS, far=True, usual=False),
    Kind("strings empty", _replaced(strings.empty), STRINGS),
    Kind("strings unknown", _replaced(strings.unknown), STRINGS),
    Kind("strings long", _replaced(strings.long), STRINGS),
    Kind("strings not UTF-8", _replaced(strings.not_utf8), STRINGS),
    Kind("strings foreign", _replaced(strings.foreign), STRINGS),
    Kind("strings of numbers", _replaced(strings.number), STRINGS),
    Kind("strings spaced", _replaced(strings.spaced), STRINGS),
    Kind("strings in another case", _replaced(strings.cased), STRINGS),
    Kind("candidates permuted", _permuted),
    Kind("one candidate", _keep(1), sized=True),
    Kind("two candidates", _keep(2), sized=True),
    Kind("no candidates", _keep(0), sized=True, usual=False),
    Kind("many candidates", _many, sized=True, usual=False),
    Kind("another size", _other_size, sized=True, usual=False),
    Kind("several rows", _batch, sized=True, usual=False),
    Kind("optional inputs left out", _left_out),
    Kind("outputs by name", _outputs, usual=False),
    Kind("unknown parameters", _parameters, usual=False),
    Kind("priority and time limit", _urgent, usual=False),
    Kind("typed contents", _in_typed_contents, usual=False),
)
BY_NAME: Mapping[str, Kind] = {kind.name: kind for kind in KINDS}
