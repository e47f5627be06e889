"""Memory of a child's process: what unwritten outputs show, and what results share.

And how a function is called: by name or by position. Standard library and numpy only: the child
loads this file by path.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

Anything: TypeAlias = Any  # what code takes and returns
NOT_LOOKED_AT, READ_ONLY, WRITABLE = -1, 0, 1


def poison(sizes: list[int], byte: int) -> None:
    """Leave freed memory of these sizes full of one byte: an unwritten output shows it."""
    for _ in range(2):  # the first freeing teaches the allocator to keep blocks of this size
        blocks = [np.full(size, byte, dtype=np.uint8) for size in sizes for _ in range(3)]
        del blocks


def shared(result: Anything, arguments: dict[str, Any]) -> list[list[str]]:
    """Return the pairs (output, argument) whose memory overlaps."""
    extents = {name: _extent(value) for name, value in arguments.items()}
    pairs = []
    for name, value in _objects(result, ""):
        mine = _extent(value)
        for argument, theirs in extents.items():
            if mine and theirs and mine[0] < theirs[1] and theirs[0] < mine[1]:
                pairs.append([name, argument])
    return pairs


# numpy 2 moved it
_BOUNDS: Any = getattr(np, "byte_bounds", None) or np.lib.array_utils.byte_bounds


def _extent(value: Anything) -> tuple[int, int] | None:
    """Return the addresses of an array's or a tensor's storage."""
    if isinstance(value, np.ndarray):
        low, high = _BOUNDS(value)
        return (low, high) if value.size else None
    if hasattr(value, "untyped_storage"):
        storage = value.untyped_storage()
        return (
            (storage.data_ptr(), storage.data_ptr() + storage.nbytes()) if value.numel() else None
        )
    return None


def _objects(value: Anything, prefix: str) -> list[tuple[str, Any]]:
    """Return the leaves of a result as they are, with their names."""
    if isinstance(value, dict):
        pairs: list[tuple[Any, Any]] = list(value.items())
    elif isinstance(value, tuple | list):
        pairs = list(enumerate(value))
    else:
        return [(prefix or "output", value)]
    found: list[tuple[str, Any]] = []
    for key, item in pairs:
        found += _objects(item, f"{prefix}.{key}" if prefix else str(key))
    return found


# --- results that a caller writes into --------------------------------------------------------


class Written:
    """A result whose leaves are overwritten one after the other, as a caller may do.

    `writable`, int8[leaves]: WRITABLE, READ_ONLY, or NOT_LOOKED_AT for scalars and what is empty.
    A leaf that then holds another one's mark shares its memory.
    """

    def __init__(self, result: Anything) -> None:
        """Write."""
        self._held: list[tuple[Any, Any]] = []  # each array, and what was in it
        states = []
        for place, (_, value) in enumerate(_objects(result, "")):
            array = _array(value)
            if array is None or not array.size:
                states.append(NOT_LOOKED_AT)
            elif not array.flags.writeable:
                states.append(READ_ONLY)
            else:
                states.append(WRITABLE)
                self._held.append((array, array.copy()))
                array[...] = mark(array.dtype, place)
        self.writable = np.array(states, dtype=np.int8)

    def restore(self) -> None:
        """Put back what was there."""
        for array, content in reversed(self._held):
            array[...] = content
        self._held.clear()


def _array(value: Anything) -> Anything:
    """Return the memory of an array or a tensor as a plain array, None for anything else."""
    if isinstance(value, np.ndarray):
        return value.view(np.ndarray)
    torch: Any = sys.modules.get("torch")
    if not isinstance(value, getattr(torch, "Tensor", ())):
        return None
    tensor: Any = value
    plain = tensor.detach()
    if plain.dtype == torch.bfloat16:
        plain = plain.view(torch.int16)
    try:
        return plain.numpy()
    except (TypeError, RuntimeError):  # on another device, or of a kind of its own
        return None


def mark(dtype: np.dtype[Any], place: int) -> Anything:
    """Return what is written into the leaf of this number, as an array of no dimension."""
    if dtype.kind == "O":
        content = np.empty((), dtype=object)
        content[()] = b"\xff%d" % place
        return content
    if dtype.kind == "b":
        return np.array(place % 2 == 0)
    if dtype.kind in "SU":
        return np.array(chr(65 + place % 26)).astype(dtype)
    if dtype.kind in "mM":
        return np.array(77 + place % 50, dtype=f"{dtype.byteorder}i8").view(dtype)
    return np.array(77 + place % 50).astype(dtype)


# --- calls ------------------------------------------------------------------------------------


def parameters(function: Anything) -> list[list[Any]]:
    """Return what a function takes, in order: [name, kind, whether it may be left out].

    Nothing where it does not tell.
    """
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [[p.name, p.kind.name, p.default is not p.empty] for p in found]


def given(
    arguments: dict[str, Any], by_position: Sequence[str], left_out: Sequence[str]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call as they are handed over: by position, and by name."""
    named = {n: x for n, x in arguments.items() if n not in by_position and n not in left_out}
    return [arguments[name] for name in by_position], named
