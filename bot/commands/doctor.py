"""`fvec doctor`: what this machine has, what it lacks, and how to get it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from bot.commands import arguments
from bot.commands.outcome import Outcome

if TYPE_CHECKING:
    from bot.commands.checkup import Finding

MISSING = 4


def add(commands: arguments.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("doctor", help="say what is missing on this machine")
    parser.add_argument(
        "path", metavar="PATH", type=Path, nargs="?", help="check for this serving repository too"
    )
    parser.add_argument(
        "--install",
        action="store_true",
        help="install the model server's environment if it is absent",
    )
    arguments.add_json(parser)
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> Outcome:
    """Check the machine; exit code 4 if something needed is missing."""
    from bot.commands import checkup
    from bot.render import terminal

    findings = checkup.check(args.path, install=args.install)
    lacking = [finding for finding in findings if finding.needed and not finding.ok]
    document = {
        "schema": "fvec.doctor/1",
        "ok": not lacking,
        "checks": [_plain(finding) for finding in findings],
    }
    rows = [[_state(f), f.name, f.detail, "" if f.ok else f.fix] for f in findings]
    view = terminal.plain_table(["", "what", "found", "how to get it"], rows)
    return Outcome(document, view, MISSING if lacking else 0)


def _state(finding: Finding) -> str:
    if finding.ok:
        return "ok"
    return "missing" if finding.needed else "note"


def _plain(finding: Finding) -> dict[str, str | bool]:
    return {
        "name": finding.name,
        "ok": finding.ok,
        "needed": finding.needed,
        "detail": finding.detail,
        "fix": finding.fix,
    }
