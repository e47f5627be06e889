"""What a function is tried on besides fresh draws: the content of its inputs, changed. Pure.

Only floating-point content is changed: what integers and strings may be is the maker's to know.
So is the order of a one-dimensional sorted array (edges, offsets): it is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from layers.callables.codec import Leaf

Inputs: TypeAlias = Mapping[str, Leaf]
Values: TypeAlias = npt.NDArray[np.float64]

LARGE = 256.0  # about the largest input whose exponential float64 still holds, squared too
HALF_LARGE = 16.0  # of two-byte floats, whose squares must stay below 65,504
SPARSE_ZEROS = 0.9
SPOILED = 3  # elements of each input that become NaN or infinite
HALF = {"<f2", "float16"}


@dataclass(frozen=True, slots=True)
class Content:
    """One kind of content, in the inputs of a call."""

    kind: str  # as `make.probes` names it; "" for what no function may refuse
    name: str  # for people
    inputs: Inputs


def is_float(leaf: Leaf) -> bool:
    """Whether a leaf holds floating-point numbers that probes may change."""
    return leaf.dtype == "bfloat16" or (leaf.array.dtype.kind == "f" and leaf.kind != "float")


def floats(leaf: Leaf) -> Values:
    """Return the content of a float leaf in float64."""
    if leaf.dtype == "bfloat16":
        wide = leaf.array.astype("<u4") << 16
        return wide.view("<f4").astype(np.float64)
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return leaf.array.astype(np.float64)


def with_floats(leaf: Leaf, values: Values) -> Leaf:
    """Return the leaf with other content, rounded to its dtype."""
    with np.errstate(over="ignore", invalid="ignore"):
        if leaf.dtype == "bfloat16":
            wide = np.ascontiguousarray(values, dtype="<f4").view("<u4")
            nan = np.isnan(values)
            rounded = (wide + 0x7FFF + ((wide >> 16) & 1)) >> 16
            array = np.where(nan, 0x7FC0, rounded).astype("<u2").reshape(leaf.array.shape)
        else:
            array = values.astype(leaf.array.dtype).reshape(leaf.array.shape)
    return Leaf(leaf.kind, leaf.dtype, array)


def upcast(inputs: Inputs) -> dict[str, Leaf]:
    """Return the inputs with all floats of lower precision in float64, for the referee."""
    return {name: _upcast(leaf) for name, leaf in inputs.items()}


def _upcast(leaf: Leaf) -> Leaf:
    if leaf.kind in {"scalar", "float"} or not is_float(leaf):
        return leaf
    dtype = "float64" if leaf.kind == "torch" else "<f8"
    return Leaf(leaf.kind, dtype, floats(leaf))


def contents(
    inputs: Inputs, state: Collection[str], refused: Collection[str], rng: np.random.Generator
) -> Iterator[Content]:
    """Yield the inputs with changed content: of what varies from call to call, then of the state.

    `refused` are the kinds that the function is not defined for.
    """
    groups = [("", [n for n in inputs if n not in state]), (" in the state", list(state))]
    for where, names in groups:
        chosen = [n for n in names if n in inputs and _may_change(inputs[n])]
        if not chosen:
            continue
        for kind, change in KINDS.items():
            if kind in refused or (where and kind in {"nan", "inf"}):
                continue
            changed = {n: with_floats(inputs[n], change(inputs[n], rng)) for n in chosen}
            yield Content(kind, kind.replace("_", "-") + where, {**inputs, **changed})


def _may_change(leaf: Leaf) -> bool:
    """Whether a leaf is floats whose order carries no meaning."""
    if not is_float(leaf) or not leaf.array.size:
        return False
    values = floats(leaf)
    return not (values.ndim == 1 and values.size > 2 and bool((np.diff(values) >= 0).all()))


def _large(leaf: Leaf, _rng: np.random.Generator) -> Values:
    values = floats(leaf)
    peak = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    goal = HALF_LARGE if leaf.dtype in HALF else LARGE
    return values * (goal / peak if 0 < peak < goal / 2 else 8.0)


def _spoil(marks: tuple[float, ...]) -> Callable[[Leaf, np.random.Generator], Values]:
    def change(leaf: Leaf, rng: np.random.Generator) -> Values:
        values = floats(leaf).ravel().copy()
        count = min(SPOILED, max(1, values.size // 8))
        places = rng.choice(values.size, count, replace=False)
        values[places] = [marks[i % len(marks)] for i in range(count)]
        return values

    return change


def _one_hot(leaf: Leaf, rng: np.random.Generator) -> Values:
    values = floats(leaf)
    rows = np.zeros_like(values).reshape(-1, values.shape[-1] if values.ndim else 1)
    rows[np.arange(len(rows)), rng.integers(0, rows.shape[1], len(rows))] = 1.0
    return rows


def _constant(leaf: Leaf, rng: np.random.Generator) -> Values:
    values = floats(leaf)
    return np.full_like(values, values.flat[int(rng.integers(values.size))])


def _sparse(leaf: Leaf, rng: np.random.Generator) -> Values:
    values = floats(leaf)
    return np.where(rng.random(values.shape) < SPARSE_ZEROS, 0.0, values)


def _zero(leaf: Leaf, _rng: np.random.Generator) -> Values:
    return np.zeros_like(floats(leaf))


KINDS: dict[str, Callable[[Leaf, np.random.Generator], Values]] = {
    "large": _large,
    "nan": _spoil((np.nan,)),
    "inf": _spoil((np.inf, -np.inf)),
    "one_hot": _one_hot,
    "constant": _constant,
    "sparse": _sparse,
    "zero": _zero,
}


def one_element(inputs: Inputs, name: str, rng: np.random.Generator) -> Inputs:
    """Return the inputs with one element of a float input changed by a third of itself or more."""
    leaf = inputs[name]
    values = floats(leaf).ravel().copy()
    place = int(rng.integers(values.size // 2, values.size))
    typical = float(np.median(np.abs(values))) or 1.0
    values[place] = 1.5 * values[place] if values[place] else typical
    return {**inputs, name: with_floats(leaf, values)}


def changeable(inputs: Inputs) -> list[str]:
    """Return the names of the float inputs whose content may be changed."""
    return [name for name, leaf in inputs.items() if _may_change(leaf)]
