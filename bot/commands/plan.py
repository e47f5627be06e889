"""`fvec plan`: the profile and the ranked hypotheses, or the run as runner jobs; changes nothing."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from functools import partial
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
    parser.add_argument(
        "--matrix",
        action="store_true",
        help="instead, print the run as a GitHub matrix on one line, from the manifest alone: "
        "nothing is profiled, and no model server is needed",
    )
    parser.add_argument(
        "--shards",
        metavar="N",
        type=arguments.shards,
        help="of --matrix: jobs for each layer (default: 1), fewer where the manifest's "
        "budget.candidates would not leave each one to try; 0: one job for the whole run",
    )
    arguments.add_run_options(parser)
    parser.set_defaults(handler=run, check=partial(_check, parser))


def _check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    if args.shards is not None and not args.matrix:
        parser.error("--shards says how --matrix shares a run out")


def run(args: argparse.Namespace) -> Outcome:
    """Profile the stack and rank the hypotheses, or share its run out among runners."""
    return _matrix(args) if args.matrix else _ranked(args)


def _ranked(args: argparse.Namespace) -> Outcome:
    from bot import results
    from bot.progress import shown_on
    from bot.render import terminal

    module = engine.load()
    out = arguments.results_folder(args.path, args.out)
    with results.kept_out_of_git(out), shown_on(sys.stderr) as events:
        report: PlanReport = module.plan(args.path, run_options(module, args, out), events)
    return Outcome(report, terminal.plan(report))


def _matrix(args: argparse.Namespace) -> Outcome:
    """Return the jobs of a run as `{"include": [...]}`; InvalidInput where it cannot be shared out."""
    from rich.text import Text

    from bot.commands import config
    from layers.errors import InvalidInput, Location
    from layers.shards import matrix

    file, _ = config.locate(args.path)
    manifest = config.load(file)
    wanted = [name for name in manifest.layers if not args.layer or name in args.layer]
    if not wanted:
        raise InvalidInput(
            f"layers does not allow {', '.join(args.layer)}",
            at=Location(file),
            hint=f"it allows {', '.join(manifest.layers)}",
        )
    shards = 1 if args.shards is None else args.shards
    try:
        jobs = matrix(manifest.budget.candidates, manifest.layers, wanted, shards)
    except ValueError as error:
        raise InvalidInput(
            f"budget: {error}",
            at=Location(file),
            hint="raise budget.candidates, or take --shards 0: one job for the whole run",
        ) from error
    document = {"include": [asdict(job) for job in jobs]}
    return Outcome(document, Text(json.dumps(document, separators=(",", ":"))))
