"""`fvec run`: the loop on one stack, up to its pull requests and report."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from bot.commands import arguments, engine
from bot.commands.outcome import Outcome

if TYPE_CHECKING:
    from layers.evidence import RunReport
    from layers.session import RunOptions

PROPOSERS = ("cookbook",)
FORGES = ("local",)
LAYERS = ("kernel", "graph", "server", "features", "config")


def add(commands: arguments.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("run", help="find, prove and propose changes to one stack")
    arguments.add_stack(parser)
    parser.add_argument(
        "--layer",
        action="append",
        choices=LAYERS,
        help="change this layer only; may be repeated (default: the manifest's)",
    )
    parser.add_argument(
        "--proposer", choices=PROPOSERS, default="cookbook", help="what writes the changes"
    )
    parser.add_argument("--forge", choices=FORGES, default="local", help="where pull requests go")
    parser.add_argument(
        "--cookbook", metavar="DIR", type=Path, help="use these cookbook cards, not the packaged"
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the unfinished run in --out, with the same options and seed; begin one "
        "where there is none, or where one that finished was of another commit or other options",
    )
    arguments.add_run_options(parser)
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> Outcome:
    """Run the loop and leave `run.json` and `report.html` beside what the engine left."""
    from bot import results
    from bot.progress import shown_on
    from bot.render import terminal

    module = engine.load()
    out = arguments.results_folder(args.path, args.out)
    options = run_options(module, args, out)
    with results.kept_out_of_git(out), shown_on(sys.stderr) as events:
        report: RunReport = module.run(args.path, options, events)
    files = results.write(out, report)
    return Outcome(report, terminal.run(report, files))


def run_options(module: ModuleType, args: argparse.Namespace, out: Path) -> RunOptions:
    """Return the engine's options from the arguments; `measure` has fewer."""
    from bot.publish import open_local
    from layers.base import LayerName

    layers = getattr(args, "layer", None)
    options: RunOptions = module.RunOptions(
        out=out,
        layers=tuple(dict.fromkeys(map(LayerName, layers))) if layers else None,
        minutes=args.budget,
        seed=args.seed,
        cookbook=getattr(args, "cookbook", None),
        forge=open_local,
        resume=getattr(args, "resume", False),
    )
    return options
