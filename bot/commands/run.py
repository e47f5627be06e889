"""`fvec run`: the loop on one stack, up to its pull requests and report."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from bot.commands import arguments, engine, publish
from bot.commands.outcome import Outcome

if TYPE_CHECKING:
    from layers.agent_settings import AgentOptions
    from layers.evidence import RunReport
    from layers.session import RunOptions

PROPOSERS = ("cookbook", "anthropic", "command")
FORGES = ("local", "github")
OWN_SETTINGS = "FVEC_"  # what they are called in the environment, credentials among them
TOKENS = frozenset({"GITHUB_TOKEN", "GH_TOKEN"})
# What programs of ours need, too, whoever else is given it.
SHARED = frozenset({"HOME", "LANG", "PATH", "TMPDIR", "TZ", "USER"})
LAYERS = ("kernel", "graph", "server", "features", "config")


def add(commands: arguments.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("run", help="find, prove and propose changes to one stack")
    arguments.add_stack(parser)
    parser.add_argument(
        "--layer",
        action="append",
        choices=LAYERS,
        help="change this layer only; may be repeated (default: the manifest's). kernel and graph "
        "have a name and no layer in this version",
    )
    parser.add_argument(
        "--proposer",
        action="append",
        choices=PROPOSERS,
        help="what writes the changes, in the order given: the next is asked once the one before has "
        "nothing left (default: cookbook, rules that ask no model)",
    )
    parser.add_argument(
        "--agents",
        metavar="FILE",
        type=Path,
        help="what the proposers anthropic and command may spend and reach (fvec.agents/1)",
    )
    parser.add_argument(
        "--forge",
        choices=FORGES,
        default="local",
        help="where pull requests go: local, a folder under --out, or github, when the run has ended, "
        "too (`fvec publish` does that by itself; default: local)",
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
    """Refuse what does not belong together: forge and repository, agents and their settings."""
    if (args.forge == "github") != (args.repository is not None):
        parser.error("--forge github and --repository OWNER/NAME go together")
    if bool(set(args.proposer or ()) - {"cookbook"}) != (args.agents is not None):
        parser.error("--proposer anthropic or command, and --agents FILE, go together")


def run(args: argparse.Namespace) -> Outcome:
    """Run the loop; leave `run.json` and `report.html`, and publish where that was asked for.

    What measures never has credentials: they are out of the environment until it has ended.
    """
    from bot import results
    from bot.render import terminal

    out = arguments.results_folder(args.path, args.out)
    agents = _agents(args)
    with _credentials_aside(agents) as environ:
        if args.forge == "github":
            publish.check_before(args.repository, environ)
        report = _measured(args, out, agents)
    files = results.write(out, report)
    if args.forge == "github":
        return _at_github(args, out, report, environ)
    return Outcome(report, terminal.run(report, files))


def _agents(args: argparse.Namespace) -> AgentOptions | None:
    """Return what the proposers may spend and reach, with what of the environment is theirs.

    Raises InvalidInput for a file that is wrong, Missing where a variable that it names is not set.
    """
    if args.agents is None:
        return None
    from knowledge import yamlfile
    from layers.agent_settings import AgentOptions, AgentSettings, names_of
    from layers.errors import InvalidInput, Location, Missing

    try:
        settings = yamlfile.load(args.agents, AgentSettings)
    except yamlfile.YamlError as error:
        at = Location(error.path, error.line, error.column)
        raise InvalidInput(error.message, at=at, hint=error.hint) from error
    for name in args.proposer:
        if name != "cookbook" and getattr(settings, name) is None:
            raise InvalidInput(
                f"there is no section {name}",
                at=Location(args.agents),
                hint="it configures the proposer",
            )
    names = names_of(settings, args.proposer)
    if absent := [name for name in names if not os.environ.get(name)]:
        raise Missing(
            f"{', '.join(absent)} not set in the environment",
            hint=f"{args.agents} names what proposers get from there",
        )
    return AgentOptions(settings, {name: os.environ[name] for name in names})


def _measured(args: argparse.Namespace, out: Path, agents: AgentOptions | None) -> RunReport:
    from bot import results
    from bot.progress import shown_on

    module = engine.load()
    options = replace(run_options(module, args, out), agents=agents)
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
def _credentials_aside(agents: AgentOptions | None) -> Iterator[Mapping[str, str]]:
    """Yield the environment as it was, while it is without credentials."""
    whole = dict(os.environ)
    theirs = set(agents.environ) - SHARED if agents else set()
    aside = [n for n in whole if n.startswith(OWN_SETTINGS) or n in TOKENS or n in theirs]
    for name in aside:
        del os.environ[name]
    try:
        yield whole
    finally:
        os.environ.update({name: whole[name] for name in aside})


def run_options(module: ModuleType, args: argparse.Namespace, out: Path) -> RunOptions:
    """Return the engine's options from the arguments; `measure` has fewer."""
    from bot.publishing.local import open_local
    from layers.base import COOKBOOK, LayerName

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
        proposers=tuple(dict.fromkeys(getattr(args, "proposer", None) or (COOKBOOK,))),
    )
    return options
