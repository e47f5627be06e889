"""Memory of a child's process: what unwritten outputs show, and what results share.

Standard library and numpy only: the child loads this file by path.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Anything: TypeAlias = Any  # what code takes and returns


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
