"""The least time that writing a call's outputs can take, from this machine's speed."""

from __future__ import annotations

import time
from functools import lru_cache

import numpy as np

from layers.callables.compare import gate
from layers.evidence import Gate, GateResult
from layers.gates.tensors import Array

TRIES = 5
PAGE = 4096


def written_bytes(array: Array) -> int:
    """Return the bytes of an output that somebody must have written: pages of more than zeros.

    The kernel hands out pages of zeros that nobody writes. Text lies elsewhere.
    """
    if array.dtype.kind == "O":
        return 0
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    whole = raw.size // PAGE * PAGE
    pages = np.count_nonzero(raw[:whole].reshape(-1, PAGE).any(axis=1))
    return int(pages) * PAGE + raw.size - whole


@lru_cache(maxsize=64)
def write_floor_s(size: int) -> float:
    """Return the least time of writing `size` bytes, best of five.

    Outputs are compared whole, so each of their bytes must have been written; of the inputs a
    function need not read what it does not use. The buffer has the size of the call's own outputs,
    so that what fits a cache is measured in it.
    """
    target = np.zeros(max(1, size), dtype=np.uint8)
    best = float("inf")
    for value in range(1, 1 + TRIES):
        started = time.perf_counter()
        target.fill(value)
        best = min(best, time.perf_counter() - started)
    return best


def write_floor_gate(size: int, candidate_s: float, reference_s: float) -> Gate:
    """Refuse a time below that of writing what comes out; the reference must keep to it too.

    `size` is in bytes, without outputs that are views of arguments.
    """
    floor_s = write_floor_s(size)
    detail = f"{1e6 * candidate_s:.0f} us a call; writing its {size:,} bytes takes {1e6 * floor_s:.0f} us"
    if candidate_s < floor_s <= reference_s:
        return gate("floor", GateResult.FAIL, "faster_than_possible", detail)
    return gate("floor", GateResult.PASS, "above_the_floor", detail)
