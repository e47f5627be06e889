"""One element of one input changed, two rows of one exchanged: what a stale copy would not see. Pure.

Whoever keeps what derives from an input and asks only a part of it, or a sum of it, whether it is
still the same, is found by changes at any place of any input, one at a time. What integers, strings
and sorted arrays may be is the maker's to know: another element is that of another draw at the same
place, or lies between its neighbours, and what holds of both draws (rising, distinct, the length of
another input as its sum) must hold of the changed one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from layers.callables.codec import Leaf, Value
from layers.callables.probes import Inputs, another, floats, is_float, with_floats
from layers.gates.tensors import Array

PARTS = ("early", "middle", "late")  # thirds of an input's places: a change in each
TRIES = 8
ORDERED = "biufmMSUO"  # dtype kinds whose elements have an order
FEW_COLUMNS = 8  # each of which may be what rows are sorted by
MOST_COMPARED = 1 << 18  # elements of a column that are looked at for being distinct


def one_element(
    inputs: Inputs, other: Inputs, name: str, rng: np.random.Generator, part: int
) -> Inputs | None:
    """Return the inputs with one element of one input changed, in a third of its places.

    `other` is another draw. None where the input has no such place, or where nothing can be changed.
    """
    leaf, size = inputs[name], inputs[name].array.size
    if part >= size or leaf.kind == "NoneType" or name not in other:
        return None
    known = _facts(inputs, name) & _facts(other, name)
    low, high = size * part // len(PARTS), max(1, size * (part + 1) // len(PARTS))
    for _ in range(TRIES):
        for changed in _others(leaf, other[name], int(rng.integers(low, high))):
            found = {**inputs, name: changed}
            if _changed(leaf, changed) and known <= _facts(found, name):
                return found
    return None


def rows_exchanged(
    inputs: Inputs, other: Inputs, name: str, rng: np.random.Generator
) -> Inputs | None:
    """Return the inputs with two rows of one of them exchanged; None where none may be."""
    array = inputs[name].array
    if not array.ndim or len(array) < 2 or name not in other:
        return None
    known = _facts(inputs, name) & _facts(other, name)
    for _ in range(TRIES):
        first, second = rng.choice(len(array), 2, replace=False).tolist()
        moved = array.copy()
        moved[[first, second]] = array[[second, first]]
        found = {**inputs, name: _with(inputs[name], moved)}
        if _changed(inputs[name], found[name]) and known <= _facts(found, name):
            return found
    return None


def _others(leaf: Leaf, other: Leaf, place: int) -> Iterator[Leaf]:
    """Yield the leaf with other elements at one place, the likeliest to be allowed first."""
    flat = leaf.array.reshape(-1)
    if is_float(leaf) and not _rising(leaf.array):
        values = floats(leaf).reshape(-1).copy()
        at = place * (values.size // flat.size)  # a complex number is two of them
        values[at] = another(values, at)
        yield with_floats(leaf, values)
        return
    if (other.kind, other.dtype, other.array.shape) == (leaf.kind, leaf.dtype, leaf.array.shape):
        yield _replaced(leaf, place, other.array.reshape(-1)[place])
    if _rising(leaf.array) and 0 < place < len(flat) - 1 and flat.dtype.kind in "iufmM":
        low, gap = flat[place - 1], flat[place + 1] - flat[place - 1]
        yield _replaced(leaf, place, low + (gap / 4 if flat.dtype.kind == "f" else gap // 4))


def _replaced(leaf: Leaf, place: int, element: Value) -> Leaf:
    """Return the leaf with another element at one place."""
    changed = leaf.array.reshape(-1).copy()
    changed[place] = element
    return _with(leaf, changed.reshape(leaf.array.shape))


def _with(leaf: Leaf, array: Array) -> Leaf:
    return Leaf(leaf.kind, leaf.dtype, array)


def _changed(old: Leaf, new: Leaf) -> bool:
    """Whether the content is another one."""
    if old.array.dtype.kind == "O":
        return bool(old.array.reshape(-1).tolist() != new.array.reshape(-1).tolist())
    return old.array.tobytes() != new.array.tobytes()


def _rising(array: Array) -> bool:
    """Whether the elements of a column never fall, and are not all the same."""
    if array.ndim != 1 or array.size < 3 or array.dtype.kind not in ORDERED:
        return False
    try:
        return bool((array[1:] >= array[:-1]).all() and array[0] != array[-1])
    except TypeError:  # bytes and text in one column
        return False


def _facts(inputs: Inputs, name: str) -> frozenset[str]:
    """Return what holds of one input, beside the others, in words that can be compared."""
    leaf = inputs[name]
    array = leaf.array
    if not array.ndim or not array.size or leaf.dtype == "bfloat16":
        return frozenset()
    facts = {"rises": _rising(array), **_rising_columns(array)}
    if not is_float(leaf):
        facts |= _distinct(array)
    if array.dtype.kind in "bi" or (array.dtype.kind == "u" and array.dtype.itemsize < 8):
        facts |= _sums(array.astype(np.int64), inputs)
    return frozenset(fact for fact, holds in facts.items() if holds)


def _rising_columns(array: Array) -> dict[str, bool]:
    """Return which of few columns rise: rows may be sorted by one."""
    if array.ndim != 2 or array.shape[1] > FEW_COLUMNS or array.dtype.kind not in "iuf":
        return {}
    rising = np.atleast_1d((array[1:] >= array[:-1]).all(axis=0))
    return {f"column {column} rises": bool(holds) for column, holds in enumerate(rising)}


def _distinct(array: Array) -> dict[str, bool]:
    """Return whether elements are distinct, and how rows of whole numbers are ordered."""
    if array.ndim == 1:
        items = array.tolist() if array.size <= MOST_COMPARED else []
        return {"is distinct": len(set(items)) == len(items)}
    if array.ndim > 2 or array.dtype.kind not in "iu" or array.shape[1] < 2:
        return {}
    ordered = np.sort(array, axis=1)
    return {
        "rows rise": bool((array[:, 1:] >= array[:, :-1]).all()),
        "rows are distinct": bool((ordered[:, 1:] != ordered[:, :-1]).all()),
    }


def _sums(numbers: Array, inputs: Inputs) -> dict[str, bool]:
    """Return what whole numbers add up to, and of what they may be places."""
    if numbers.ndim > 1:
        sums = numbers.sum(axis=-1).reshape(-1)
        return {f"rows sum to {sums[0]}": bool((sums == sums[0]).all())}
    total, here, links = int(numbers.sum()), np.arange(len(numbers)), numbers >= 0
    facts = {
        f"sum is {total}": True,
        "links go on": bool((numbers[links] > here[links]).all()),
        "links go back": bool((numbers[links] < here[links]).all()),
    }
    for name, leaf in inputs.items():
        if leaf.array.ndim:
            length = len(leaf.array)
            facts[f"sum is the length of {name}"] = total == length
            facts[f"ends at the length of {name}"] = int(numbers[-1]) == length
            facts[f"lies within {name}"] = int(numbers.max()) < length
    return facts
