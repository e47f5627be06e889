"""Walls of layouts as tables for a terminal, and as the document `fvec.walls/1`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from bot.render import numbers
from bot.render.floor import NAMES, NUMBER_OF, assumed
from bot.render.terminal import plain_table
from bot.render.text import one_line
from layers.floor import documents
from layers.floor.walls import (
    CAPACITY,
    METRICS,
    RESOURCES,
    Crossover,
    Fleet,
    Point,
    Wall,
    Walls,
)


@dataclass(frozen=True, slots=True)
class WallsReport:
    """All that `fvec walls` says of layouts on the same devices."""

    walls: Sequence[Walls]
    crossovers: Sequence[Crossover]
    frontiers: Mapping[str, Sequence[Point]]  # by metric

    @property
    def assumptions(self) -> list[str]:
        """What the configuration, the card and the layouts leave open, and what was taken."""
        return documents.taken(found.fleet for found in self.walls)

    @property
    def fleet(self) -> Fleet:
        """One of the fleets: model, context, card and number of devices are those of all."""
        return self.walls[0].fleet


def walls(report: WallsReport) -> RenderableType:
    """Show the walls of each layout, where layouts cross, and which one is best for which speed."""
    fleet = report.fleet
    card = fleet.place.hardware.name
    asked = (
        f"{fleet.model.name} on {fleet.devices} {NUMBER_OF}{card}, "
        f"{numbers.setting(fleet.context)} tokens of context: least number of sequences at which "
        "a resource binds"
    )
    parts: list[RenderableType] = [
        Text(one_line(asked), style="dim"),
        plain_table(
            ["layout", *(NAMES[name] for name in RESOURCES), "first"],
            [_walls_row(found) for found in report.walls],
            right=set(range(1, len(RESOURCES) + 1)),
        ),
    ]
    if report.crossovers:
        head = ["faster from so many sequences on, of", *METRICS]
        parts.append(plain_table(head, list(_crossings(report.crossovers))))
    elif len(report.walls) > 1:
        parts.append(Text("no layout takes over from another within what both have room for"))
    for metric, points in report.frontiers.items():
        stretches = itertools.groupby(points, key=lambda point: point.name)
        rows = [_stretch_row(list(run)) for _, run in stretches]
        head = [f"best by {metric}", "sequences", "tokens/s a user", "tokens/s a device"]
        parts.append(plain_table(head, rows, right={1, 2, 3}))
    parts += assumed(report.assumptions)
    return Group(*parts)


def walls_document(report: WallsReport) -> dict[str, Any]:
    """Return the `fvec.walls/1` document; `requests` are sequences on all devices together."""
    fleet = report.fleet
    return {
        **documents.walls_document(report.walls, report.crossovers),
        "model": fleet.model.name,
        "hardware": fleet.place.hardware.name,
        "devices": fleet.devices,
        "context": fleet.context,
        "frontier": {
            metric: [
                {
                    "layout": point.name,
                    "requests": point.sequences,
                    "user_tokens_per_s": point.user_per_s,
                    "device_tokens_per_s": point.device_per_s,
                }
                for point in points
            ]
            for metric, points in report.frontiers.items()
        },
    }


def _walls_row(found: Walls) -> list[str]:
    by_name = {wall.resource: wall for wall in found.walls}
    cells = [_wall(by_name[name]) for name in RESOURCES]
    first = NAMES[found.first] if found.first else numbers.ABSENT
    return [found.fleet.name, *cells, first]


def _crossings(crossovers: Sequence[Crossover]) -> Iterator[list[str]]:
    """Yield a row a pair of layouts: by each metric, which one leads from which load on."""
    for pair in dict.fromkeys(c.between for c in crossovers):
        found = [c for c in crossovers if c.between == pair]
        cells = (
            [f"{numbers.count(c.sequences)}: {c.faster}" for c in found if c.metric == metric]
            for metric in METRICS
        )
        yield [f"{pair[0]}, {pair[1]}", *(", ".join(cell) or numbers.ABSENT for cell in cells)]


def _wall(wall: Wall) -> str:
    if wall.sequences is None:
        return "out of reach"
    if wall.resource == CAPACITY:
        return numbers.number(wall.sequences) if wall.sequences else "weights do not fit"
    if wall.sequences <= 1:
        return "from the first"
    told = numbers.count(int(wall.sequences))
    return told if wall.within else f"{told}, no room"


def _stretch_row(run: Sequence[Point]) -> list[str]:
    """Return the ends of a run of points of one layout."""
    return [
        run[0].name,
        f"{numbers.count(run[0].sequences)} to {numbers.count(run[-1].sequences)}",
        f"{numbers.number(run[0].user_per_s)} to {numbers.number(run[-1].user_per_s)}",
        f"{numbers.number(run[0].device_per_s)} to {numbers.number(run[-1].device_per_s)}",
    ]
