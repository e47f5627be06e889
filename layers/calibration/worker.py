"""The measuring process: probes by name, a line in and a line out. Standard library, and torch or NumPy.

Started as a file of its own (`python -I worker.py THREADS BYTES`), so that threads are set before a numerical
library counts the cores. Says first which library it has and which probes, then for each name on standard
input its rate: bytes or operations per second over at least STRETCH_S.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import ModuleType

STRETCH_S = 0.1
TRIALS = 3
SLOWER = 4  # times as long as in float32: a dtype without a fast path here, left out
SIDE = 2048  # of square matrices
SMALL = 256  # of those that are tried first
INT8_PRODUCT = "_int_mm"  # torch's name for the one whose result is int32


@dataclass(frozen=True)
class Probe:
    """Bytes or operations of a call, the call, and small ones: its like, and the one it is held to."""

    work: float
    call: Callable[[], object]
    trial: Callable[[], object] = int
    against: Callable[[], object] | None = None  # None: always made


def main() -> None:
    """Answer until standard input ends."""
    threads, size = int(sys.argv[1]), int(sys.argv[2])
    if threads == 1:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    library, probes = _library(threads, size)
    usable = {name: probe for name, probe in probes if _is_usable(probe)}
    _say({"library": library, "probes": sorted(usable)})
    for line in sys.stdin:
        _say(_rate(usable[line.strip()]))


def _library(threads: int, size: int) -> tuple[str, Iterator[tuple[str, Probe]]]:
    try:
        torch = import_module("torch")
    except ImportError:
        numpy = import_module("numpy")
        return f"NumPy {numpy.__version__}", _numpy_probes(numpy, size)
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    return f"torch {torch.__version__}", _torch_probes(torch, size)


def _torch_probes(torch: ModuleType, size: int) -> Iterator[tuple[str, Probe]]:
    source, target = torch.ones(size // 4), torch.empty(size // 4)
    matrix, vector = source[: _rows(size) * SIDE].view(-1, SIDE), torch.ones(SIDE)
    yield "copy", Probe(2.0 * size, partial(target.copy_, source))
    yield "read", Probe(4.0 * matrix.numel(), partial(torch.mv, matrix, vector))
    square, part = torch.ones(SIDE, SIDE), torch.ones(SMALL, SMALL)
    yield "float32", Probe(2.0 * SIDE**3, partial(torch.mm, square, square))
    for name in ("bfloat16", "float16", "int8"):
        multiply = getattr(torch, INT8_PRODUCT) if name == "int8" else torch.mm
        whole, small = (one.to(getattr(torch, name)) for one in (square, part))
        calls = partial(multiply, whole, whole), partial(multiply, small, small)
        yield name, Probe(2.0 * SIDE**3, *calls, partial(torch.mm, part, part))


def _numpy_probes(numpy: ModuleType, size: int) -> Iterator[tuple[str, Probe]]:
    source, target = numpy.ones(size // 4, "f4"), numpy.empty(size // 4, "f4")
    matrix = source[: _rows(size) * SIDE].reshape(-1, SIDE)
    vector = numpy.ones(SIDE, "f4")
    yield "copy", Probe(2.0 * size, partial(numpy.copyto, target, source))
    yield "read", Probe(4.0 * matrix.size, partial(numpy.matmul, matrix, vector))
    square = numpy.ones((SIDE, SIDE), "f4")
    yield "float32", Probe(2.0 * SIDE**3, partial(numpy.matmul, square, square))


def _rows(size: int) -> int:
    return size // 4 // SIDE


def _is_usable(probe: Probe) -> bool:
    """Whether a call works at all and is not of a path that nobody would use; it is warm afterwards."""
    try:
        if probe.against and _least_s(probe.trial) > SLOWER * _least_s(probe.against):
            return False
        probe.call()
    except (RuntimeError, AttributeError, TypeError):
        return False
    return True


def _least_s(call: Callable[[], object]) -> float:
    call()
    return min(_spent(call) for _ in range(TRIALS))


def _spent(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _rate(probe: Probe) -> float:
    calls, started = 0, time.perf_counter()
    while (spent := time.perf_counter() - started) < STRETCH_S:
        probe.call()
        calls += 1
    return probe.work * calls / spent


def _say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
