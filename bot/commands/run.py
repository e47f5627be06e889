"""`fvec run`: the loop on one stack, up to its pull requests and report."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from bot.commands import arguments, engine, publish
from bot.commands.outcome import Outcome

if TYPE_CHECKING:
    from layers.evidence import RunReport
    from layers.session import RunOptions

PROPOSERS = ("cookbook",)
FORGES = ("local", "github")
OWN_SETTINGS = "FVEC_"  # what they are called in the environment, credentials among them
TOKENS = frozenset({"GITHUB_TOKEN", "GH_TOKEN"})
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
    parser.add_argument(
        "--forge",
        choices=FORGES,
        default="local",
        help="where pull requests go: a folder, or when the run has ended GitHub too (see "
        "`fvec publish`, which does that by itself)",
    )
    publish.add_repository(parser, required=False)
    parser.add_argument(
        "--cookbook", metavar="DIR", type=Path, help="use these cookbook cards, not the packaged"
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the unfinished run in --out, with the same options and seed; begin one "
        "where there is none, or where one that finished was of another commit or other options",
    )
    parser.add_argument(
        "--shard",
        metavar="K/N",
        type=arguments.shard,
        help="take only part K of N of the hypotheses, and that share of the candidates: other "
        "runners take the rest (see `fvec plan --matrix`)",
    )
    arguments.add_run_options(parser)
    parser.set_defaults(handler=run, check=partial(_check, parser))


def _check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Refuse a forge and a repository that do not belong together."""
    if (args.forge == "github") != (args.repository is not None):
        parser.error("--forge github and --repository OWNER/NAME go together")


def run(args: argparse.Namespace) -> Outcome:
    """Run the loop; leave `run.json` and `report.html`, and publish where that was asked for.

    What measures never has credentials: they are out of the environment until it has ended.
    """
    from bot import results
    from bot.render import terminal

    out = arguments.results_folder(args.path, args.out)
    with _credentials_aside() as environ:
        if args.forge == "github":
            publish.check_before(args.repository, environ)
        report = _measured(args, out)
    files = results.write(out, report)
    if args.forge == "github":
        return _at_github(args, out, report, environ)
    return Outcome(report, terminal.run(report, files))


def _measured(args: argparse.Namespace, out: Path) -> RunReport:
    from bot import results
    from bot.progress import shown_on

    module = engine.load()
    options = run_options(module, args, out)
    with results.kept_out_of_git(out), shown_on(sys.stderr) as events:
        report: RunReport = module.run(args.path, options, events)
    return report


def _at_github(
    args: argparse.Namespace, out: Path, report: RunReport, environ: Mapping[str, str]
) -> Outcome:
    """Publish what the run left, and write that into its report."""
    from rich.console import Group

    from bot import results
    from bot.render import publication, terminal

    report, published = publish.of_run(args, out, report, environ)
    files = results.write(out, report)
    return Outcome(report, Group(terminal.run(report, files), publication.outcome(published)))


@contextmanager
def _credentials_aside() -> Iterator[Mapping[str, str]]:
    """Yield the environment as it was, while it is without credentials."""
    whole = dict(os.environ)
    aside = [name for name in whole if name.startswith(OWN_SETTINGS) or name in TOKENS]
    for name in aside:
        del os.environ[name]
    try:
        yield whole
    finally:
        os.environ.update({name: whole[name] for name in aside})


def run_options(module: ModuleType, args: argparse.Namespace, out: Path) -> RunOptions:
    """Return the engine's options from the arguments; `measure` has fewer."""
    from bot.publishing.local import open_local
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
        shard=getattr(args, "shard", None),
    )
    return options
