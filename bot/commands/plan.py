"""`fvec plan`: the profile and the ranked hypotheses; changes nothing."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bot.commands import arguments, engine
from bot.commands.outcome import Outcome
from bot.commands.run import LAYERS, run_options

if TYPE_CHECKING:
    from layers.evidence import PlanReport


def add(commands: arguments.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "plan", help="profile a stack and rank what could be changed; changes nothing"
    )
    arguments.add_stack(parser)
    parser.add_argument(
        "--layer", action="append", choices=LAYERS, help="only this layer; may be repeated"
    )
    parser.add_argument(
        "--cookbook", metavar="DIR", type=Path, help="use these cookbook cards, not the packaged"
    )
    arguments.add_run_options(parser)
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> Outcome:
    """Profile the stack and rank the hypotheses."""
    from bot import results
    from bot.progress import shown_on
    from bot.render import terminal

    module = engine.load()
    out = arguments.results_folder(args.path, args.out)
    with results.kept_out_of_git(out), shown_on(sys.stderr) as events:
        report: PlanReport = module.plan(args.path, run_options(module, args, out), events)
    return Outcome(report, terminal.plan(report))
