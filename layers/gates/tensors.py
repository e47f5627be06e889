"""Tensors compared element by element, and quantiles of streams. Pure."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from layers.errors import InvalidInput

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]

TAIL_CAPACITY = 1 << 16
STRINGS = "SUO"  # dtype kinds that carry BYTES tensors


def type_name(dtype: np.dtype[Any]) -> str:
    """Return the name that two comparable dtypes share; all strings are BYTES."""
    if dtype.kind in STRINGS:
        return "BYTES"
    return dtype.name if dtype.isnative else dtype.str


def is_finite(array: Array) -> bool:
    """Whether no element is NaN or infinite; strings and integers always are finite."""
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


class UpperTail:
    """The largest values of a stream: exact p99.9 of up to 65 million, then an upper bound.

    Only values above the quantile matter, so only the largest `TAIL_CAPACITY` are kept.
    """

    def __init__(self) -> None:
        self.count = 0
        self._chunks: list[Floats] = []
        self._pending = 0

    def add(self, values: Floats) -> None:
        """Take in non-negative values, any shape."""
        self.count += values.size
        self._pending += values.size
        self._chunks.append(values.ravel())
        if self._pending > 4 * TAIL_CAPACITY:
            self._kept()

    def _kept(self) -> Floats:
        """Return the largest values, sorted; forgets the rest."""
        kept = (
            np.sort(np.concatenate(self._chunks))[-TAIL_CAPACITY:] if self._chunks else np.empty(0)
        )
        self._chunks, self._pending = [kept], kept.size
        return kept

    @property
    def largest(self) -> float:
        """The maximum; 0 without values."""
        return self._from_the_top(0)

    @property
    def p999(self) -> float:
        """The least value that at least 99.9 % of all values do not exceed; 0 without values."""
        return self._from_the_top(self.count // 1000)

    def _from_the_top(self, rank: int) -> float:
        kept = self._kept()
        return float(kept[max(-kept.size, -1 - rank)]) if kept.size else 0.0


def bits_differ(baseline: Array, candidate: Array) -> npt.NDArray[np.bool_]:
    """Return which elements differ in any bit, flat: NaN payloads and the sign of zero count.

    Both arrays have one shape; numbers have one dtype. Strings differ by type or content. Of elements
    of more than 8 bytes all bytes count, padding too.
    Raises InvalidInput for elements that are neither numbers nor strings.
    """
    if baseline.dtype.kind in STRINGS:
        pairs = zip(_strings(baseline), _strings(candidate), strict=True)
        return np.array([type(a) is not type(b) or a != b for a, b in pairs], dtype=np.bool_)
    size = baseline.dtype.itemsize
    unsigned = np.dtype(f"u{size}" if size <= 8 else "u1")
    a, b = (np.ascontiguousarray(x).ravel().view(unsigned) for x in (baseline, candidate))
    differs = a != b if size <= 8 else (a != b).reshape(-1, size).any(axis=1)
    return np.asarray(differs, dtype=np.bool_)


def _strings(array: Array) -> list[bytes | str]:
    """Return the elements of a string tensor."""
    items = array.ravel().tolist()
    for item in items:
        if not isinstance(item, bytes | str):
            raise InvalidInput(f"a string tensor holds {type(item).__name__}, not bytes or text")
    return items


def deviation_of(baseline: Array, candidate: Array, differs: npt.NDArray[np.bool_]) -> Floats:
    """Return |candidate - baseline|, flat; 0 where bits agree or no finite distance exists."""
    deviation = np.zeros(differs.size)
    if baseline.dtype.kind in STRINGS or not differs.any():
        return deviation
    a, b = (x.ravel()[differs].astype(np.float64) for x in (baseline, candidate))
    finite = np.isfinite(a) & np.isfinite(b)
    deviation[np.flatnonzero(differs)[finite]] = distance(b[finite], a[finite])
    return deviation


def distance(values: Array, reference: Floats) -> Floats:
    """Return |values - reference| in float64, flat, capped at the largest float."""
    with np.errstate(over="ignore"):
        gap = np.abs(values.ravel().astype(np.float64) - reference.ravel())
    return np.minimum(gap, np.finfo(np.float64).max)


def rms(array: Array) -> float:
    """Return the root mean square, computed without overflow; 0 for an empty tensor."""
    values = np.abs(array.ravel().astype(np.float64))
    peak = float(values.max(initial=0.0))
    return peak * float(np.sqrt(np.mean((values / peak) ** 2))) if peak else 0.0
