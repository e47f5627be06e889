"""The least time that moving a call's bytes can take, from this machine's copy speed."""

from __future__ import annotations

import time
from functools import lru_cache

import numpy as np

from layers.callables.compare import gate
from layers.evidence import Gate, GateResult

TRIES = 5


@lru_cache(maxsize=64)
def copy_floor_s(size: int) -> float:
    """Return the least time of copying half of `size` bytes to the other half, best of five.

    Input is read and output written: a call that does both moves as much as this copy does. The
    buffer has the size of the call's own data, so that what fits a cache is measured in it.
    """
    half = max(1, size // 2)
    source, target = np.ones(half, dtype=np.uint8), np.zeros(half, dtype=np.uint8)
    best = float("inf")
    for _ in range(TRIES):
        started = time.perf_counter()
        np.copyto(target, source)
        best = min(best, time.perf_counter() - started)
    return best


def copy_floor_gate(size: int, candidate_s: float, reference_s: float) -> Gate:
    """Refuse a time below that of copying what goes in and out; the reference must keep to it too."""
    floor_s = copy_floor_s(size)
    detail = f"{1e6 * candidate_s:.0f} us a call; copying its {size:,} bytes takes {1e6 * floor_s:.0f} us"
    if candidate_s < floor_s <= reference_s:
        return gate("floor", GateResult.FAIL, "faster_than_possible", detail)
    return gate("floor", GateResult.PASS, "above_the_floor", detail)
