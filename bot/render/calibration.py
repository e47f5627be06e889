"""What a machine was measured to do, as a table and as the document `fvec.calibration/1`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Group, RenderableType
from rich.text import Text

from bot.render.terminal import plain_table
from bot.render.text import one_line
from layers.calibration.machine import Calibration
from layers.calibration.rates import Measured

Row: TypeAlias = tuple[
    str, Measured, float, float, str
]  # what, repetitions, best, unit: size, name


def calibration(found: Calibration, paths: Sequence[Path]) -> RenderableType:
    """Show each rate with its median and interval, and how the cards are used."""
    rows = [
        [what, *(f"{value / size:.4g} {unit}" for value in _told(rates, best))]
        for what, rates, best, size, unit in _rates(found)
    ]
    ids = ", ".join(path.stem for path in paths)
    folder = paths[0].parent.parent
    return Group(
        Text(one_line(f"{found.processor}, by {found.library}"), style="bold"),
        plain_table(["measured", "best", "median", "95 % from", "to"], rows, right={1, 2, 3, 4}),
        Text(one_line(f"cards {ids}: fvec floor --cards {folder} --hardware {paths[0].stem}")),
    )


def calibration_document(found: Calibration, paths: Sequence[Path]) -> dict[str, Any]:
    """Return the document; rates in bytes or operations per second, the latency in seconds."""
    names = ("best", "median", "low", "high")
    return {
        "schema": "fvec.calibration/1",
        "processor": found.processor,
        "library": found.library,
        "load": found.load,
        "cards": [str(path) for path in paths],
        "measured": {
            what: dict(zip(names, _told(rates, best), strict=True))
            | {"repetitions": len(rates.values)}
            for what, rates, best, _, _ in _rates(found)
        },
    }


def _rates(found: Calibration) -> Iterator[Row]:
    for arm in found.arms:
        cores = f"{arm.cores} core{'s' if arm.cores > 1 else ''}"
        for what, rates in arm.memory.items():
            yield f"{what} of memory, {cores}", rates, max(rates.values), 1e9, "GB/s"
        for dtype, rates in arm.matrices.items():
            yield f"matrices in {dtype}, {cores}", rates, max(rates.values), 1e9, "GFLOP/s"
    yield "message between processes", found.latency_s, min(found.latency_s.values), 1e-6, "us"
    link = found.link_bytes_per_s
    yield "link between processes", link, max(link.values), 1e9, "GB/s"


def _told(rates: Measured, best: float) -> tuple[float, float, float, float]:
    """Return the best, the median and the ends of its interval."""
    return (best, rates.median, *rates.interval)
