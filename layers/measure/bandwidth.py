"""This machine's bandwidths, measured once in a session: the ceilings of every block rest on them."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable

import numpy as np

from layers.calibration import machine
from layers.calibration.card import peaks
from layers.manifest import FloorSection
from layers.measure.ceilings import Ceilings

BYTES = 64 << 20
CHUNK = 1 << 20
REPETITIONS = 3  # of each rate that a declared floor needs
TRIES = 3  # the best counts: a neighbour only ever slows a copy down


def measure(floor: FloorSection) -> Ceilings:
    """Copy 64 MiB in memory and send as much through a local socket; about 0.2 s.

    Where `floor` declares what a request needs, that as time, too: seconds of measuring more.
    Raises Missing or ToolFailed where that cannot be measured.
    """
    source = np.ones(BYTES, dtype=np.uint8)
    target = np.zeros_like(source)  # touched, so that no page fault is timed

    def copy() -> None:
        np.copyto(target, source)

    return Ceilings(
        copy_bytes_per_s=BYTES / _best_s(copy),
        link_bytes_per_s=BYTES / _best_s(lambda: _through_socket(source)),
        cores=os.cpu_count() or 1,
        needs_s=needs_s(floor),
    )


def needs_s(floor: FloorSection) -> dict[str, float]:
    """Return what a request needs of all cores, in seconds by resource; empty for nothing declared.

    Constants are the most that was seen, for a floor is the least time. Bytes that the last-level
    cache can hold are not counted: they need not come from memory.
    """
    if not floor.declared:
        return {}
    found = machine.calibrate(REPETITIONS)
    arm, needs = found.arms[-1], {}
    if floor.flops_per_request is not None:
        needs["arithmetic"] = floor.flops_per_request / peaks(arm)[floor.dtype]
    if floor.bytes_per_request is not None:
        rate = max(max(rates.values) for rates in arm.memory.values())
        needs["memory"] = max(0.0, floor.bytes_per_request - (found.cache_bytes or 0)) / rate
    return needs


def _best_s(run: Callable[[], None]) -> float:
    """Return the shortest of a few runs in seconds."""
    taken = []
    for _ in range(TRIES):
        begun_s = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begun_s)
    return min(taken)


def _through_socket(source: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
    """Send all bytes to a thread of this process that reads them."""
    here, there = socket.socketpair()

    def drain() -> None:
        left, buffer = source.nbytes, bytearray(CHUNK)
        while left and (got := there.recv_into(buffer)):
            left -= got

    reader = threading.Thread(target=drain)
    with here, there:
        reader.start()
        here.sendall(source.data)
        reader.join()
