"""`fvec verify`: the evidence of a pull request, measured again."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bot.commands import arguments, engine
from bot.commands.judge import EXIT_CODES
from bot.commands.outcome import Outcome

if TYPE_CHECKING:
    from layers.evidence import VerifyReport


def add(commands: arguments.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "verify", help="measure a pull request's evidence again and test the difference"
    )
    parser.add_argument(
        "evidence",
        metavar="EVIDENCE",
        type=Path,
        help="evidence.json with patch.diff beside it, or their folder",
    )
    parser.add_argument(
        "--stack",
        metavar="PATH",
        type=Path,
        default=Path(),
        help="a checkout of the stack that has the evidence's base commit (default: this folder)",
    )
    arguments.add_out_and_seed(parser, default=".fvec/NAME/verify, NAME being the stack's folder")
    arguments.add_json(parser)
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> Outcome:
    """Judge the patch again on its base commit; leave `verify.json` and `verify.md`."""
    from bot import results
    from bot.progress import shown_on
    from bot.render import judge_terminal, judgement

    reverify, judging = engine.load("layers.reverify"), engine.load("layers.judge")
    out = args.out or arguments.results_folder(args.stack, None) / "verify"
    options = judging.JudgeOptions(out=out, seed=args.seed)
    with results.kept_out_of_git(out), shown_on(sys.stderr) as events:
        report: VerifyReport = reverify.verify_evidence(args.evidence, args.stack, options, events)
        files = results.write_judgement(out, "verify", report, judgement.verified_body(report))
    return Outcome(report, judge_terminal.verify(report, files), EXIT_CODES[report.verdict])
