"""`fvec measure`: the noise of the unmodified stack against itself."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from bot.commands import arguments, engine
from bot.commands.outcome import Outcome
from bot.commands.run import run_options

if TYPE_CHECKING:
    from layers.evidence import MeasureReport


def add(commands: arguments.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("measure", help="measure the noise of a stack against itself")
    arguments.add_stack(parser)
    arguments.add_run_options(parser)
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> Outcome:
    """Measure the noise floor and what gain it can resolve."""
    from bot import results
    from bot.progress import shown_on
    from bot.render import terminal

    module = engine.load()
    out = arguments.results_folder(args.path, args.out)
    with results.kept_out_of_git(out), shown_on(sys.stderr) as events:
        report: MeasureReport = module.measure(args.path, run_options(module, args, out), events)
    return Outcome(report, terminal.measure(report))
