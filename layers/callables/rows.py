"""Inputs that have one row per example: in another order, mixed with other draws. Pure.

Rows count as independent where every input that varies leads with the batch and no column of
numbers or times is sorted: edges, offsets and time series keep their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from layers.callables.codec import Leaf
from layers.callables.probes import Inputs, Values, floats, is_float

STRINGS = "OSU"  # dtype kinds of text and bytes
SAMPLED = 4096  # rows, about, that tell what is common
_COMMON = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-.:/"


def permuted(
    inputs: Inputs, state: Collection[str], batch: int, rng: np.random.Generator
) -> Inputs | None:
    """Return the inputs with their rows in another order; None where order may carry meaning."""
    rows = independent_rows(inputs, state, batch)
    if not rows:
        return None
    order = rng.permutation(batch)
    return {n: Leaf(x.kind, x.dtype, x.array[order]) if n in rows else x for n, x in inputs.items()}


def one_row_of(
    inputs: Inputs, other: Inputs, state: Collection[str], batch: int, row: int
) -> Inputs | None:
    """Return the inputs with one row from another draw; None where rows depend on each other."""
    rows = independent_rows(inputs, state, batch)
    if not rows or any(inputs[n].array.shape != other[n].array.shape for n in rows):
        return None
    changed = dict(inputs)
    for name in rows:
        array = inputs[name].array.copy()
        array[row] = other[name].array[row]
        changed[name] = Leaf(inputs[name].kind, inputs[name].dtype, array)
    return changed if _as_distinct([inputs, other], changed, rows) else None


def unusual_rows(
    draws: Sequence[Inputs], state: Collection[str], batch: int, rng: np.random.Generator
) -> Inputs | None:
    """Return one batch of the most unusual rows of many draws, with the state of the first.

    What is rare in the maker's own distribution (a negative number, a key with a space in it) may
    be in no single draw. Half of the rows are the oddest by each input in turn, half are usual
    ones. None where rows depend on each other.
    """
    first = draws[0]
    names = independent_rows(first, state, batch)
    fitting = [d for d in draws if names and _alike(d, first, names)]
    if len(fitting) < 2:
        return None
    pooled = {n: np.concatenate([draw[n].array for draw in fitting]) for n in names}
    leaves = {n: Leaf(first[n].kind, first[n].dtype, pooled[n]) for n in names}
    each = max(1, batch // (2 * len(names)))
    chosen = [np.argpartition(-unusualness(leaf), each)[:each] for leaf in leaves.values()]
    rows = np.unique(np.concatenate(chosen))[:batch]
    usual = rng.choice(batch * len(fitting), batch - len(rows), replace=False)
    order = rng.permutation(np.concatenate([rows, usual]))
    found = {
        name: Leaf(leaf.kind, leaf.dtype, pooled[name][order]) if name in names else leaf
        for name, leaf in first.items()
    }
    return found if _as_distinct(fitting, found, names) else None


def _alike(draw: Inputs, first: Inputs, names: Collection[str]) -> bool:
    """Whether a draw's rows have the form of the first one's."""
    return all(
        n in draw
        and (draw[n].kind, draw[n].dtype) == (first[n].kind, first[n].dtype)
        and draw[n].array.shape == first[n].array.shape
        for n in names
    )


def _as_distinct(draws: Sequence[Inputs], mixed: Inputs, names: Collection[str]) -> bool:
    """Whether columns without duplicates still have none: a permutation must stay one."""
    columns = [n for n in names if mixed[n].array.ndim == 1 and not is_float(mixed[n])]
    suspects = [n for n in columns if not _distinct(mixed[n])]
    return not any(all(_distinct(draw[n]) for draw in draws) for n in suspects)


def _distinct(leaf: Leaf) -> bool:
    items = leaf.array.tolist()
    return len(set(items)) == len(items)


def unusualness(leaf: Leaf) -> Values:
    """Return float64[rows]: how far each row's oddest element lies from what is common."""
    array = leaf.array
    if not array.size:
        return np.zeros(len(array))
    rows = array.reshape(len(array), -1)
    if array.dtype.kind in STRINGS:
        counts = Counter(rows.ravel().tolist())
        rare = _rarity_of_bytes(counts)
        odd = {text: _oddness(text) + 1 / count + rare(text) for text, count in counts.items()}
        return np.array([max(odd[text] for text in row) for row in rows.tolist()])
    values = _numbers(leaf).reshape(len(array), -1)
    finite = np.isfinite(values)
    values = np.where(finite, values, 0.0)
    with np.errstate(over="ignore"):
        step = max(1, len(values) // SAMPLED)
        distance = np.abs(values - np.median(values[::step], axis=0))
        spread = np.median(distance[::step], axis=0)
        distance /= np.where(spread > 0, spread, 1.0)
    distance[~finite] = np.inf
    furthest: Values = distance.max(axis=1)
    return furthest


def _numbers(leaf: Leaf) -> Values:
    """Return the content of numbers, truths and times in float64; complex numbers as pairs."""
    array: npt.NDArray[Any] = leaf.array
    if is_float(leaf):
        return floats(leaf)
    if array.dtype.kind in "mM":
        array = np.ascontiguousarray(array).view("<i8")
    return array.astype(np.float64)


def _oddness(text: object) -> float:
    """Return how odd a string is: empty, with bytes that names seldom have, long."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if not isinstance(raw, bytes):
        return 0.0
    odd = len(raw.translate(None, _COMMON))
    return (2.0 if not raw else 0.0) + 4.0 * (odd > 0) + odd / (1 + len(raw)) + 1e-4 * len(raw)


def _rarity_of_bytes(texts: Iterable[object]) -> Callable[[object], float]:
    """Return what scores a string by its rarest byte: 2 at most, less the more strings have it."""
    sets = {text: frozenset(_raw(text)) for text in texts}
    having = Counter(byte for found in sets.values() for byte in found)
    return lambda text: max((2 / having[byte] for byte in sets[text]), default=0.0)


def _raw(text: object) -> bytes:
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return raw if isinstance(raw, bytes) else b""


def independent_rows(inputs: Inputs, state: Collection[str], batch: int) -> list[str]:
    """Return the inputs with one row per example, or none where rows may depend on each other."""
    varying = {n: x for n, x in inputs.items() if n not in state and x.array.ndim}
    if not varying or batch < 2 or any(len(x.array) != batch for x in varying.values()):
        return []
    return [] if batch > 2 and any(map(_sorted, varying.values())) else list(varying)


def _sorted(leaf: Leaf) -> bool:
    """Whether a column is in rising order; one that is the same everywhere has no order."""
    array = leaf.array
    if array.ndim != 1 or leaf.dtype == "bfloat16" or array.dtype.kind not in "iufmM":
        return False
    return bool((array[1:] >= array[:-1]).all() and array[0] != array[-1])
