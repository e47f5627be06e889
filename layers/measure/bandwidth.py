"""This machine's bandwidths, measured once in a session: the ceilings of every block rest on them."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable

import numpy as np

from layers.measure.ceilings import Ceilings

BYTES = 64 << 20
CHUNK = 1 << 20
TRIES = 3  # the best counts: a neighbour only ever slows a copy down


def measure() -> Ceilings:
    """Copy 64 MiB in memory and send as much through a local socket; about 0.2 s."""
    source = np.ones(BYTES, dtype=np.uint8)
    target = np.zeros_like(source)  # touched, so that no page fault is timed

    def copy() -> None:
        np.copyto(target, source)

    return Ceilings(
        copy_bytes_per_s=BYTES / _best_s(copy),
        link_bytes_per_s=BYTES / _best_s(lambda: _through_socket(source)),
        cores=os.cpu_count() or 1,
    )


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
