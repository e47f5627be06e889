"""Salted copies of recorded requests: new content at the recorded sizes and cost.

What is timed must be new to the server, or a memo of whole requests would count as a gain. A
salted request holds the recorded candidates in another order and, beside them, float inputs that
are up to 2 % smaller: the same work for code that computes, a miss for code that remembers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2
from tritonclient.utils import triton_to_np_dtype

from layers.traffic.mutations import Axis
from layers.traffic.tensors import decode, encode, parse

SHRINK = (
    0.02  # a float input is multiplied by one factor from 1 - SHRINK to 1: order and signs stay
)
_FLOATS = ("FP16", "FP32", "FP64")


@dataclass(frozen=True, slots=True)
class Salt:
    """Which parts of a request may be changed; `neither` leaves it as recorded."""

    permute: bool
    shrink: bool

    def __str__(self) -> str:
        """Say what it does, for the evidence."""
        done = [
            *(["candidates in another order"] if self.permute else []),
            *([f"floats up to {SHRINK:.0%} smaller"] if self.shrink else []),
        ]
        return " and ".join(done) or "as recorded"


# From the strongest on; a stack may refuse one (sorted candidates, values that sum to 1).
SALTS = (
    Salt(permute=True, shrink=True),
    Salt(permute=True, shrink=False),
    Salt(permute=False, shrink=True),
)
UNSALTED = Salt(permute=False, shrink=False)


class Salter:
    """Makes salted copies of recorded requests."""

    def __init__(self, requests: Sequence[bytes], axes: Sequence[Axis], salt: Salt) -> None:
        """`axes` are the candidates' (`mutations.candidate_axes`)."""
        self._requests = requests
        self._axes = dict(axes)
        self.salt = salt

    def recorded(self, index: int) -> bytes:
        """Return request `index` as recorded."""
        return self._requests[index]

    def salted(self, index: int, rng: np.random.Generator) -> bytes:
        """Return a changed copy of request `index`; its id, shapes and datatypes stay.

        Raises ValueError on a malformed request.
        """
        template = self._requests[index]
        if self.salt == UNSALTED:
            return template
        message = parse(service_pb2.ModelInferRequest, template)
        if not message.raw_input_contents:
            template = encode(template, decode(template), message.id)  # typed contents become raw
            message = parse(service_pb2.ModelInferRequest, template)
        chosen = self._order(message.inputs, rng)
        for place, tensor in enumerate(message.inputs):
            raw = message.raw_input_contents[place]
            shape = tuple(tensor.shape)
            if chosen is not None and tensor.name in self._axes:
                axis = self._axes[tensor.name]
                raw = take_raw(raw, tensor.datatype, shape, axis, chosen)
            elif self.salt.shrink:
                raw = shrunk(raw, tensor.datatype, rng)
            message.raw_input_contents[place] = raw
        data: bytes = message.SerializeToString()
        return data

    def _order(
        self,
        inputs: Sequence[service_pb2.ModelInferRequest.InferInputTensor],
        rng: np.random.Generator,
    ) -> NDArray[np.int64] | None:
        """Draw an order of the candidates; None where there are fewer than two, or sizes differ."""
        if not self.salt.permute:
            return None
        sizes = _sizes(inputs, self._axes)
        if len(sizes) != 1 or (size := sizes.pop()) < 2:
            return None
        order: NDArray[np.int64] = rng.permutation(size).astype(np.int64)
        return order


def _sizes(
    inputs: Sequence[service_pb2.ModelInferRequest.InferInputTensor], axes: Mapping[str, int]
) -> set[int]:
    """Return the sizes of the candidate dimension over the inputs that have it."""
    return {
        int(tensor.shape[axes[tensor.name]])
        for tensor in inputs
        if tensor.name in axes and axes[tensor.name] < len(tensor.shape)
    }


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


def shrunk(raw: bytes, datatype: str, rng: np.random.Generator) -> bytes:
    """Return a float tensor times one factor; others, and whole numbers (flags, counts), as they are."""
    if datatype not in _FLOATS:
        return raw
    values: NDArray[Any] = np.frombuffer(raw, dtype=triton_to_np_dtype(datatype))
    finite = values[np.isfinite(values)]
    if not (finite != np.trunc(finite)).any():
        return raw
    factor = values.dtype.type(1 - SHRINK * rng.random())
    changed: bytes = (values * factor).tobytes()
    return changed


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
