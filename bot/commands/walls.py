"""`fvec walls`: which resource binds first as load grows, for layouts on the same devices."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bot.commands import arguments, deployment, engine
from bot.commands.outcome import Outcome
from layers.errors import InvalidInput

if TYPE_CHECKING:
    from bot.render.walls import WallsReport
    from layers.floor.layout import Layout
    from layers.floor.walls import Fleet

PLOTS = (".svg", ".png")
MOST_LAYOUTS = 8
_COUNTED = re.compile(r"(.+):(\d{1,5})", re.ASCII)


def add(commands: arguments.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "walls", help="which resource binds first as load grows, for layouts of a language model"
    )
    deployment.add(parser, hardware="a card and how many of it: h20:16, my-card.yaml:8")
    parser.add_argument(
        "--layouts",
        metavar="LAYOUT,...",
        type=_layouts,
        required=True,
        help="to compare: tp16,ep16+dp; a smaller one is repeated until the devices are full",
    )
    parser.add_argument(
        "--plot", metavar="FILE", type=Path, help=f"draw them, to a file in {' or '.join(PLOTS)}"
    )
    arguments.add_json(parser)
    parser.set_defaults(handler=run, check=partial(_check, parser))


def run(args: argparse.Namespace) -> Outcome:
    """Find the walls, where layouts cross and which is best; draw them if asked to."""
    from bot.render import walls as render
    from layers.floor import walls

    fleets = _fleets(args)
    with deployment.refused(fleets[0].place.hardware):
        report = render.WallsReport(
            [walls.walls(fleet) for fleet in fleets],
            walls.crossovers(fleets),
            {metric: walls.frontier(fleets, metric) for metric in ("t_opt", "t_sum")},
        )
    if args.plot:
        _draw(report, args.plot)
    return Outcome(render.walls_document(report), render.walls(report))


def _layouts(text: str) -> list[Layout]:
    found = [deployment.layout(name) for name in text.split(",")]
    if len(set(found)) < len(found) or len(found) > MOST_LAYOUTS:
        raise argparse.ArgumentTypeError(f"at most {MOST_LAYOUTS} layouts, each once")
    return found


def _check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Stop with exit code 2 where layouts and devices do not go together."""
    if args.plot and args.plot.suffix not in PLOTS:
        parser.error(f"--plot {args.plot}: the name ends in {' or '.join(PLOTS)}")
    counted = _COUNTED.fullmatch(args.hardware)
    sizes = [layout.devices for layout in args.layouts]
    args.devices = int(counted[2]) if counted else max(sizes)
    args.hardware = counted[1] if counted else args.hardware
    for layout in args.layouts:
        if args.devices % layout.devices or not args.devices:
            parser.error(
                f"{layout} takes {layout.devices} devices, which do not fill {args.devices}: "
                f"say how many there are, as in --hardware {args.hardware}:{max(sizes)}"
            )


def _fleets(args: argparse.Namespace) -> Sequence[Fleet]:
    """Return each layout on all devices. Raises InvalidInput for a model or a card."""
    from layers.floor.modules import Place
    from layers.floor.walls import Fleet

    model, precision = deployment.read(args)
    hardware = deployment.card(args)
    return [
        Fleet(
            str(layout),
            model,
            Place(layout, hardware, precision),
            float(args.context),
            args.devices // layout.devices,
        )
        for layout in args.layouts
    ]


def _draw(report: WallsReport, path: Path) -> None:
    """Write the plot. Raises Missing without matplotlib, InvalidInput where there is none to write."""
    if not any(report.frontiers.values()):
        hint = "more devices, a shorter context, or formats of fewer bits"
        raise InvalidInput("no layout has room for one sequence: nothing to draw", hint=hint)
    told = "--plot draws, and the package {!r} is not installed"
    plots = engine.load("bot.render.plots", told=told)
    content = plots.walls(report.walls, report.frontiers, png=path.suffix == ".png")
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}", hint="--plot names a new file") from error
