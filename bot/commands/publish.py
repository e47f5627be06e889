"""`fvec publish`: what runs left, as pull requests at GitHub. It holds credentials, and runs nothing."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.commands import arguments, engine
from bot.commands.outcome import Outcome
from bot.github import server_url
from layers.errors import FvecError, InvalidInput

if TYPE_CHECKING:
    from bot.github.forge import GitHubForge
    from bot.publishing.github import Published
    from layers.evidence import RunReport

SCHEMA = "fvec.publish/1"
_load = partial(
    engine.load,
    extras="engine,github",
    told="to publish, the package {!r} is needed, which is not installed",
)


def add(commands: arguments.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "publish", help="publish what runs left as pull requests at GitHub; measures nothing"
    )
    parser.add_argument(
        "results",
        metavar="RESULTS",
        type=Path,
        nargs="+",
        help="folder that `fvec run --out` left; several of one run that was shared",
    )
    add_repository(parser, required=True)
    parser.add_argument(
        "--stack",
        metavar="CHECKOUT",
        type=Path,
        default=Path(),
        help="a checkout of the repository with its history (default: this folder)",
    )
    parser.add_argument(
        "--bundle",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="git bundle with the branches of a run that another machine did; of several results "
        "each may have one beside it",
    )
    parser.add_argument(
        "--recreate",
        action="store_true",
        help="start over pull requests that a person closed or committed to",
    )
    arguments.add_json(parser)
    parser.set_defaults(handler=run)


def add_repository(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add --repository."""
    parser.add_argument(
        "--repository",
        metavar="OWNER/NAME",
        required=required,
        help="at GitHub; credentials are FVEC_GITHUB_TOKEN, or FVEC_APP_ID and "
        "FVEC_APP_PRIVATE_KEY_FILE",
    )


def run(args: argparse.Namespace) -> Outcome:
    """Publish every results folder; the exit code is 0 whatever became of the pull requests."""
    from bot.render import publication

    publishing = _load("bot.publishing.github")
    forge = connected(args.repository, os.environ)
    bundles = _paired(args.results, args.bundle)
    published: list[Published] = []
    for results in args.results:
        if results in bundles:
            _unbundle(args.stack, bundles[results], results)
        published += publishing.publish_results(results, args.stack, forge, recreate=args.recreate)
    return Outcome(document(args.repository, published), publication.outcome(published))


def of_run(
    args: argparse.Namespace, results: Path, report: RunReport, environ: Mapping[str, str]
) -> tuple[RunReport, Sequence[Published]]:
    """Publish what `fvec run` has just left; return its report with the pull requests at GitHub.

    An error says besides that the results are kept, and how to go on.
    """
    try:
        forge = connected(args.repository, environ)
        publishing = _load("bot.publishing.github")
        published: list[Published] = publishing.publish_results(results, args.path, forge)
    except FvecError as error:
        argv = ["fvec", "publish", str(results), "--repository", args.repository]
        again = shlex.join([*argv, "--stack", str(args.path)])
        kept = f"the results are kept: `{again}` publishes them"
        error.hint = f"{error.hint}; {kept}" if error.hint else kept
        raise
    return publishing.recorded(report, published), published


def document(repository: str, published: Sequence[Published]) -> Mapping[str, Any]:
    """Return what `--json` prints."""
    pulls = [
        {
            "became": one.kind,
            "number": one.number,
            "branch": one.branch,
            "base": one.base,
            "title": one.title,
            "url": one.url,
            "iterations": list(one.iterations),
            "detail": one.detail,
        }
        for one in published
    ]
    return {"schema": SCHEMA, "repository": repository, "pull_requests": pulls}


def check_before(repository: str, environ: Mapping[str, str]) -> None:
    """Refuse what could not be published to, before anything is measured; no credential is read.

    Raises Missing without credentials in the environment, and InvalidInput for a name that is none.
    """
    auth = _load("bot.github.auth")
    auth.check_repository(repository)
    if not {"FVEC_GITHUB_TOKEN", "FVEC_APP_ID"}.intersection(environ):
        auth.Credentials.from_environment({})


def connected(repository: str, environ: Mapping[str, str]) -> GitHubForge:
    """Return the forge of a repository, with the credentials that the environment names.

    Raises Missing without any, InvalidInput for a name that is none, and GitHubError.
    """
    auth, client = _load("bot.github.auth"), _load("bot.github.client")
    forge, transport = _load("bot.github.forge"), _load("bot.github.transport")
    name = auth.check_repository(repository)
    credentials = auth.Credentials.from_environment(environ)
    server = server_url(environ)
    remote = transport.Remote(f"{server.rstrip('/')}/{name}.git", credentials)
    connection = client.connect(credentials).repository(name)
    opened: GitHubForge = forge.GitHubForge(connection, remote)
    return opened


def _paired(results: Sequence[Path], bundles: Sequence[Path]) -> Mapping[Path, Path]:
    """Return the bundle of each results folder that has one: the only one, or the one beside it.

    Raises InvalidInput for a bundle that belongs to none of several.
    """
    if len(results) == len(bundles) == 1:
        return {results[0]: bundles[0]}
    folders = {folder.resolve().parent: folder for folder in results}
    for bundle in bundles:
        if bundle.resolve().parent not in folders:
            raise InvalidInput(
                f"{bundle} lies beside none of the results",
                hint="of several results each lies in a folder with its own bundle",
            )
    return {folders[bundle.resolve().parent]: bundle for bundle in bundles}


def _unbundle(root: Path, bundle: Path, results: Path) -> None:
    """Take the branches that the results are about out of a bundle."""
    from bot.github import commits
    from bot.publishing import claims

    branches = claims.read(results).branches
    if branches:
        commits.fetch_bundle(root, bundle, branches)
