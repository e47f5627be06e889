"""What was measured as hardware cards: one of a single core, one of all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from knowledge.store import load_device
from knowledge.yamlfile import YamlError
from layers.calibration.machine import Arm, Calibration
from layers.calibration.rates import Measured
from layers.errors import ToolFailed

FAMILY = "cpu"
QUIET = 0.5  # runnable processes above which the machine was at other work, too
_WIDER = ("bf16", "fp16", "int8")  # whose operands may be widened to fp32


def write(found: Calibration, folder: Path) -> list[Path]:
    """Write a card for each number of cores to `folder`/hardware and return their paths.

    Raises ToolFailed where a card cannot be read back, OSError where it cannot be written.
    """
    paths = []
    for arm in found.arms:
        path = folder / "hardware" / f"{name(arm)}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text(found, arm), encoding="utf-8")
        try:
            load_device(path)
        except YamlError as error:
            raise ToolFailed(f"the card that was written is wrong: {error}") from error
        paths.append(path)
    return paths


def name(arm: Arm) -> str:
    """Return the id of an arm's card."""
    return f"this-machine-{arm.cores}-core{'s' if arm.cores > 1 else ''}"


def text(found: Calibration, arm: Arm) -> str:
    """Return the card of an arm as YAML."""
    facts = dict(_facts(found, arm))
    system = {"memory_bytes", "cache_bytes", "scale_up_devices"}
    day = datetime.now(UTC).date()
    cores = "one core" if arm.cores == 1 else f"all {arm.cores} cores"
    lines = [
        "schema: fvec.card/1",
        "kind: hardware",
        f"id: {name(arm)}",
        f"title: {_quoted(f'{found.processor}, {cores}')}",
        "facts:",
        f"  family: {FAMILY}",
        *(f"  {key}: {value!r}" for key, value in facts.items()),
        "  source_of:",
        *(f"    {key}: {'system' if key in system else 'measured'}" for key in facts),
        "notes:",
        *(f"  - {_quoted(note)}" for note in _notes(found, arm)),
        "sources:",
        f"  - title: {_quoted(f'measured: fvec floor --calibrate on {day}, {found.library}')}",
        '  - title: "system: sysconf and /sys/devices/system/cpu of Linux"',
    ]
    return "\n".join(lines) + "\n"


def _facts(found: Calibration, arm: Arm) -> Iterator[tuple[str, float | int]]:
    """Yield the constants: of each the most (of the latency the least) that was seen."""
    yield "memory_bytes", found.memory_bytes
    yield "hbm_bytes_per_s", max(max(rates.values) for rates in arm.memory.values())
    for dtype, rate in peaks(arm).items():
        yield f"{dtype}_flops_per_s", rate
    if found.cache_bytes:
        yield "cache_bytes", found.cache_bytes
    yield "scale_up_devices", found.arms[-1].cores if arm.cores == 1 else 1
    yield "scale_up_bytes_per_s", max(found.link_bytes_per_s.values)
    yield "scale_up_latency_s", min(found.latency_s.values)


def peaks(arm: Arm) -> dict[str, float]:
    """Return the best rate by dtype; narrower operands may always be widened to fp32."""
    wide = max(arm.matrices["fp32"].values)
    best = {dtype: max(rates.values) for dtype, rates in arm.matrices.items()}
    return {"fp32": wide} | {dtype: max(best.get(dtype, 0.0), wide) for dtype in _WIDER}


def _notes(found: Calibration, arm: Arm) -> Iterator[str]:
    yield "Constants are the best of all repetitions: a floor takes the most that was seen."
    for what, rates in arm.memory.items():
        yield _note(f"{what} of memory", rates, 1e9, "GB/s")
    for dtype, rates in arm.matrices.items():
        yield _note(f"matrices in {dtype}", rates, 1e9, "GFLOP/s")
    missing = [dtype for dtype in _WIDER if dtype not in arm.matrices]
    if missing:
        yield f"No fast path for {', '.join(missing)}: the rate of fp32, operands widened."
    yield _note("message between two processes", found.latency_s, 1e-6, "us")
    yield _note("loopback link", found.link_bytes_per_s, 1e9, "GB/s")
    if found.load > QUIET:
        yield f"Measured beside other work: load {found.load:.2f} in the minute before."


def _note(what: str, rates: Measured, unit: float, name: str) -> str:
    low, high = rates.interval
    said = f"{what}: median {rates.median / unit:.4g} {name}, 95 % interval {low / unit:.4g} to "
    return f"{said}{high / unit:.4g}, {len(rates.values)} repetitions"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
