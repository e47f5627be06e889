"""Renewed copies of recorded requests: new content at the recorded sizes and cost.

What is timed must be new to the server, or a memo of whole requests, or a table of the recording,
would count as a gain. By the strongest salt every column of the candidates comes from some request
that has as many, every other input from some request of the same layout, and every fractional
float is up to 2 % smaller by a factor of its own: the same work for code that computes, a miss for
code that remembers. Strings, integers and whole floats stay values of the recording, in other rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2

from layers.traffic.envelope import new_id
from layers.traffic.structure import Axis, sampled, structural_inputs
from layers.traffic.tensors import Array, from_raw, make_raw, parse, to_raw

# A float is multiplied by a factor from 1 - SHRINK to 1: it stays within what was recorded, or nearly.
SHRINK = 0.02
OWN_SHARE = 0.2  # of inputs that stay the request's own, where another one has their like
_FLOATS = ("FP16", "BF16", "FP32", "FP64")


@dataclass(frozen=True, slots=True)
class Salt:
    """Which parts of a request may be changed; with none of them it stays as recorded."""

    permute: bool
    shrink: bool
    recombine: bool = False  # of no effect without `permute`

    def __str__(self) -> str:
        """Say what it does, for the evidence."""
        permuted = "rows of several requests" if self.recombine else "candidates in another order"
        done = [
            *([permuted] if self.permute else []),
            *([f"floats up to {SHRINK:.0%} smaller, each by itself"] if self.shrink else []),
        ]
        return " and ".join(done) or "as recorded"


# From the strongest on; a stack may refuse one (sorted candidates, values that sum to 1).
SALTS = (
    Salt(permute=True, shrink=True, recombine=True),
    Salt(permute=True, shrink=True),
    Salt(permute=True, shrink=False),
    Salt(permute=False, shrink=True),
)
UNSALTED = Salt(permute=False, shrink=False)


class _Column(NamedTuple):
    """One input of a request, in raw contents."""

    raw: bytes
    datatype: str
    shape: tuple[int, ...]

    def layout(self, axis: int | None) -> tuple[str, list[int]]:
        """Return what two columns must share, whatever their size along `axis`."""
        return self.datatype, [n for place, n in enumerate(self.shape) if place != axis]


class Salter:
    """Makes salted copies of recorded requests; counts their elements, and those that stay."""

    def __init__(self, requests: Sequence[bytes], axes: Sequence[Axis], salt: Salt) -> None:
        """`axes` are the candidates' (`structure.candidate_axes`)."""
        self._requests = requests
        self._axes = dict(axes)
        self.salt = salt
        self.elements = 0
        self.kept = 0  # of `elements`: values of the recording

    def recorded(self, index: int) -> bytes:
        """Return request `index` as recorded."""
        return self._requests[index]

    def salted(self, index: int, rng: np.random.Generator) -> bytes:
        """Return a changed copy of request `index` under a new id; sizes and datatypes stay.

        Raises ValueError on a malformed request.
        """
        message = parse(service_pb2.ModelInferRequest, self._requests[index])
        message.id = new_id(rng)
        if self.salt != UNSALTED:
            make_raw(message)
        columns = _columns(message)
        if self.salt.permute:
            columns = self._moved(columns, rng)
        for place, column in enumerate(columns.values()):
            raw, new = shrunk(*column, rng) if self.salt.shrink else (column.raw, 0)
            if self.salt != UNSALTED:
                message.raw_input_contents[place] = raw
            self.elements += prod(column.shape)
            self.kept += prod(column.shape) - new
        data: bytes = message.SerializeToString()
        return data

    def _moved(self, columns: dict[str, _Column], rng: np.random.Generator) -> dict[str, _Column]:
        """Put the candidates in another order, or take them, column by column, from others."""
        size = self._size(columns)
        if not self.salt.recombine:
            order = rng.permutation(size) if size > 1 else None
            return {n: self._picked(n, column, order) for n, column in columns.items()}
        others = [self._columns_of(self._donor(size, rng)) for _ in range(2)]
        return {n: self._recombined(n, column, others, rng) for n, column in columns.items()}

    def _size(self, columns: Mapping[str, _Column]) -> int:
        """Return the number of candidates; 0 where sizes differ, or nothing has them."""
        axes = ((column, self._axis(name, column)) for name, column in columns.items())
        sizes = {column.shape[axis] for column, axis in axes if axis is not None}
        return sizes.pop() if len(sizes) == 1 else 0

    def _axis(self, name: str, column: _Column) -> int | None:
        """Return the axis of an input that counts the candidates, None where none does."""
        axis = self._axes.get(name)
        return axis if axis is not None and axis < len(column.shape) else None

    def _picked(self, name: str, column: _Column, order: NDArray[np.int64] | None) -> _Column:
        """Return a column with some of its candidates, in an order; as it is without one."""
        axis = self._axis(name, column)
        if axis is None or order is None:
            return column
        raw = take_raw(*column, axis, order) if column.raw else b""
        shape = (*column.shape[:axis], len(order), *column.shape[axis + 1 :])
        return _Column(raw, column.datatype, shape)

    def _recombined(
        self,
        name: str,
        own: _Column,
        others: Sequence[Mapping[str, _Column]],
        rng: np.random.Generator,
    ) -> _Column:
        """Return a column of this request or another one, its candidates in an order of their own."""
        if name in self._fixed:
            return own
        axis = self._axis(name, own)
        other = others[int(rng.integers(len(others)))].get(name)
        if other is None or rng.random() < OWN_SHARE or not _fits(other, own, axis):
            other = own
        if axis is None:
            return other
        return self._picked(name, other, rng.permutation(other.shape[axis])[: own.shape[axis]])

    @cached_property
    def _fixed(self) -> frozenset[str]:
        """Inputs that count others: no other request's would fit."""
        return frozenset(structural_inputs(sampled(self._requests)))

    @cached_property
    def _by_size(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of candidates in rising order, and the requests that have them."""
        sizes = [self._size(self._columns_of(index)) for index in range(len(self._requests))]
        order = np.argsort(sizes, kind="stable")
        return np.asarray(sizes, dtype=np.int64)[order], order.astype(np.int64)

    def _donor(self, size: int, rng: np.random.Generator) -> int:
        """Draw a request that has at least as many candidates."""
        sizes, order = self._by_size
        first = int(np.searchsorted(sizes, size))
        return int(order[int(rng.integers(first, len(order)))])

    def _columns_of(self, index: int) -> dict[str, _Column]:
        message = parse(service_pb2.ModelInferRequest, self._requests[index])
        make_raw(message)
        return _columns(message)


def _columns(message: service_pb2.ModelInferRequest) -> dict[str, _Column]:
    """Return the inputs of a request, in their order; raises ValueError where contents are missing."""
    raw = message.raw_input_contents or [b""] * len(message.inputs)
    if len(raw) != len(message.inputs):
        raise ValueError(f"{len(message.inputs)} tensors but {len(raw)} raw contents")
    return {
        tensor.name: _Column(data, tensor.datatype, tuple(tensor.shape))
        for tensor, data in zip(message.inputs, raw, strict=True)
    }


def _fits(other: _Column, own: _Column, axis: int | None) -> bool:
    """Whether a column can stand where another one does, with as many candidates or more."""
    if len(other.shape) != len(own.shape) or other.layout(axis) != own.layout(axis):
        return False
    return axis is None or other.shape[axis] >= own.shape[axis]


def take_raw(
    raw: bytes, datatype: str, shape: tuple[int, ...], axis: int, chosen: NDArray[np.int64]
) -> bytes:
    """Return raw contents of `shape` with the elements `chosen` along `axis`; ValueError if cut."""
    outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
    if datatype == "BYTES":
        strings = _with_lengths(raw)
        if len(strings) != prod(shape):
            raise ValueError(f"{len(strings)} strings do not fill shape {list(shape)}")
        if outer == inner == 1:
            return b"".join([strings[i] for i in chosen.tolist()])
        places = np.arange(len(strings)).reshape(outer, shape[axis], inner)[:, chosen]
        return b"".join([strings[i] for i in places.ravel().tolist()])
    width, rest = divmod(len(raw), max(1, outer * shape[axis]))
    if rest or width == 0:
        raise ValueError(f"{len(raw)} bytes do not fill shape {list(shape)}")
    rows: NDArray[Any] = np.frombuffer(raw, dtype=f"V{width}").reshape(outer, shape[axis])
    return rows[:, chosen].tobytes()


def shrunk(
    raw: bytes, datatype: str, shape: tuple[int, ...], rng: np.random.Generator
) -> tuple[bytes, int]:
    """Return a float tensor, every element a little smaller, and how many elements are new.

    Each has a factor of its own, but where they are sorted: there one factor keeps the order. Other
    datatypes, and whole numbers (flags, counts), stay as they are. Raises ValueError if cut.
    """
    if datatype not in _FLOATS:
        return raw, 0
    values = from_raw(datatype, raw)
    finite = values[np.isfinite(values)]
    if not (finite != np.trunc(finite)).any():
        return raw, 0
    factors = 1 - SHRINK * rng.random((1,) if _sorted(values, shape) else values.shape)
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        changed = to_raw((values * factors).astype(values.dtype), datatype)
    differing = np.count_nonzero(from_raw(datatype, changed) != values)
    return changed, int(differing) - int(np.count_nonzero(np.isnan(values)))


def _sorted(values: Array, shape: tuple[int, ...]) -> bool:
    """Whether a tensor rises, or falls, along its last axis that has several elements."""
    several = [size for size in shape if size > 1]
    with np.errstate(invalid="ignore"):
        steps = np.diff(values.reshape(-1, several[-1] if several else 1), axis=1)
    return not (steps < 0).any() or not (steps > 0).any()


def _with_lengths(raw: bytes) -> list[bytes]:
    """Split raw BYTES contents into elements, each with its length in front."""
    strings: list[bytes] = []
    start, end = 0, len(raw)
    while start < end:
        stop = start + 4 + int.from_bytes(raw[start : start + 4], "little")
        if stop > end:
            raise ValueError(f"string {len(strings)} ends beyond the contents")
        strings.append(raw[start:stop])
        start = stop
    return strings
