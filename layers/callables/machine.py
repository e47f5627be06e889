"""The machine that functions are timed on: which CPU, kept free of us, and what it is."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from layers.callables.station import Record
from layers.evidence import Environment
from layers.sandbox.box import Sandbox

QUIET_S = 0.05


def quietest(cpus: Sequence[int]) -> int:
    """Return the CPU that has been idle most of the last moment."""
    if len(cpus) == 1:
        return cpus[0]
    loads = psutil.cpu_percent(QUIET_S, percpu=True)
    return min(reversed(cpus), key=lambda cpu: loads[cpu] if cpu < len(loads) else 100.0)


@contextmanager
def aside(cpu: int) -> Iterator[None]:
    """Keep this thread off the CPU of the measured processes, where there is another one."""
    before = os.sched_getaffinity(0)
    others = before - {cpu}
    if not others:
        yield
        return
    os.sched_setaffinity(0, others)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def environment(sandbox: Sandbox, record: Record, cpu: int) -> Environment:
    """Describe this machine and what the functions ran in."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text("utf-8", "replace").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return Environment(
        cpu=names[0] if names else platform.machine(),
        cores=psutil.cpu_count() or 1,
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        server="none: a function in a process",
        packages=record.versions,
        server_cpus=[cpu],
        sandbox=sandbox.describe(),
    )
