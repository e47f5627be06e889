"""What a function is tried on besides fresh draws: the content of its inputs, changed. Pure.

Only floating-point content is changed, complex numbers as pairs of floats: what integers and
strings may be is the maker's to know. So is the order of a one-dimensional sorted array (edges,
offsets): it is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

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
# Powers of ten by which rows are divided, each by its own: what is small beside any epsilon.
TINY, HALF_TINY = (6.0, 25.0), (2.0, 4.0)
DENORMAL = 0.125  # of the smallest number with all its digits
SMALLEST = {2: 2.0**-14, 4: 2.0**-126, 8: 2.0**-1022, 16: 2.0**-1022}


@dataclass(frozen=True, slots=True)
class Content:
    """One kind of content, in the inputs of a call."""

    kind: str  # as `make.probes` names it; "" for what no function may refuse
    name: str  # for people
    inputs: Inputs


def is_float(leaf: Leaf) -> bool:
    """Whether a leaf holds floating-point numbers that probes may change; complex ones too."""
    return leaf.dtype == "bfloat16" or (
        leaf.array.dtype.kind in "fc" and leaf.kind not in {"float", "complex"}
    )


def float_bytes(leaf: Leaf) -> int:
    """Return the bytes of one float of a leaf; a complex number has two."""
    return leaf.array.dtype.itemsize // (2 if leaf.array.dtype.kind == "c" else 1)


def pairs(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return complex numbers as pairs of floats, the last axis twice as long; all else as it is."""
    if array.dtype.kind != "c":
        return array
    dtype = np.dtype(f"{array.dtype.byteorder}f{array.dtype.itemsize // 2}")
    return np.ascontiguousarray(np.atleast_1d(array)).view(dtype)


def floats(leaf: Leaf) -> Values:
    """Return the content of a float leaf in float64; complex numbers as pairs along the last axis."""
    if leaf.dtype == "bfloat16":
        wide = leaf.array.astype("<u4") << 16
        return wide.view("<f4").astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # a signalling NaN becomes a quiet one
        return pairs(leaf.array).astype(np.float64)


def with_floats(leaf: Leaf, values: Values) -> Leaf:
    """Return the leaf with other content, rounded to its dtype."""
    dtype, shape = leaf.array.dtype, leaf.array.shape
    with np.errstate(over="ignore", invalid="ignore"):
        if leaf.dtype == "bfloat16":
            wide = np.ascontiguousarray(values, dtype="<f4").view("<u4")
            nan = np.isnan(values)
            rounded = (wide + 0x7FFF + ((wide >> 16) & 1)) >> 16
            array = np.where(nan, 0x7FC0, rounded).astype("<u2").reshape(shape)
        elif dtype.kind == "c":
            parts = values.astype(f"{dtype.byteorder}f{dtype.itemsize // 2}").reshape(-1)
            array = parts.view(dtype).reshape(shape)
        else:
            array = values.astype(dtype).reshape(shape)
    return Leaf(leaf.kind, leaf.dtype, array)


def upcast(inputs: Inputs) -> dict[str, Leaf]:
    """Return the inputs with all floats of lower precision in float64, for the referee."""
    return {name: _upcast(leaf) for name, leaf in inputs.items()}


def _upcast(leaf: Leaf) -> Leaf:
    if leaf.kind.startswith("scalar") or not is_float(leaf) or float_bytes(leaf) > 8:
        return Leaf(leaf.kind, leaf.dtype, leaf.array)
    if leaf.array.dtype.kind == "c":
        dtype = "complex128" if leaf.kind == "torch" else "<c16"
        return Leaf(leaf.kind, dtype, leaf.array.astype("<c16"))
    dtype = "float64" if leaf.kind == "torch" else "<f8"
    return Leaf(leaf.kind, dtype, floats(leaf))


def contents(
    inputs: Inputs, state: Collection[str], refused: Collection[str], rng: np.random.Generator
) -> Iterator[Content]:
    """Yield the inputs with changed content: of what varies from call to call, then of the state.

    `refused` are the kinds that the function is not defined for. A kind that would change nothing
    is left out.
    """
    groups = [("", [n for n in inputs if n not in state]), (" in the state", list(state))]
    for where, names in groups:
        chosen = [n for n in names if n in inputs and _may_change(inputs[n])]
        for kind, change in KINDS.items():
            if kind in refused or (where and kind in {"nan", "inf"}):
                continue
            values = {n: change(inputs[n], rng) for n in chosen}
            changed = {n: with_floats(inputs[n], x) for n, x in values.items() if x is not None}
            if changed:
                yield Content(kind, kind.replace("_", "-") + where, {**inputs, **changed})


def _may_change(leaf: Leaf) -> bool:
    """Whether a leaf is floats whose order carries no meaning."""
    if not is_float(leaf) or not leaf.array.size:
        return False
    values = floats(leaf)
    return not (values.ndim == 1 and values.size > 2 and bool((np.diff(values) >= 0).all()))


def _peak(values: Values) -> float:
    """Return the largest finite magnitude, 0 without any."""
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _large(leaf: Leaf, _rng: np.random.Generator) -> Values:
    values = floats(leaf)
    peak = _peak(values)
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


def _tiny(leaf: Leaf, rng: np.random.Generator) -> Values | None:
    values = floats(leaf)
    peak = _peak(values)
    if not peak:
        return None
    one_each = (*values.shape[:-1], 1) if values.ndim > 1 else values.shape
    powers = rng.uniform(*(HALF_TINY if leaf.dtype in HALF else TINY), one_each)
    return np.asarray(values / peak * 10.0**-powers, dtype=np.float64)


def _denormal(leaf: Leaf, _rng: np.random.Generator) -> Values | None:
    values = floats(leaf)
    peak = _peak(values)
    smallest = SMALLEST[4 if leaf.dtype == "bfloat16" else float_bytes(leaf)]
    return values / peak * (DENORMAL * smallest) if peak else None


def _sorted(leaf: Leaf, _rng: np.random.Generator) -> Values | None:
    values = floats(leaf)
    return np.sort(values, axis=-1) if values.ndim else None


def _negative(leaf: Leaf, _rng: np.random.Generator) -> Values | None:
    """Nothing where no number is negative: there it may be outside of what the function is for."""
    values = floats(leaf)
    return -np.abs(values) if (values < 0).any() else None


KINDS: dict[str, Callable[[Leaf, np.random.Generator], Values | None]] = {
    "large": _large,
    "nan": _spoil((np.nan,)),
    "inf": _spoil((np.inf, -np.inf)),
    "one_hot": _one_hot,
    "constant": _constant,
    "sparse": _sparse,
    "zero": _zero,
    "tiny": _tiny,
    "denormal": _denormal,
    "sorted": _sorted,
    "negative": _negative,
}


def one_element(inputs: Inputs, name: str, rng: np.random.Generator) -> Inputs:
    """Return the inputs with one element of a float input changed by a third of itself or more."""
    leaf = inputs[name]
    values = floats(leaf).ravel().copy()
    place = int(rng.integers(values.size))
    values[place] = another(values, place)
    return {**inputs, name: with_floats(leaf, values)}


def another(values: Values, place: int) -> float:
    """Return another number for one place of values that are flat."""
    typical = float(np.median(np.abs(values))) or 1.0
    return 1.5 * float(values[place]) if values[place] else typical


def changeable(inputs: Inputs) -> list[str]:
    """Return the names of the float inputs whose content may be changed."""
    return [name for name, leaf in inputs.items() if _may_change(leaf)]
