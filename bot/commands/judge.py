"""`fvec judge`: one given patch of a stack, or one callable against another, by the same gates."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bot.commands import arguments, engine
from bot.commands.outcome import Outcome

if TYPE_CHECKING:
    from layers.events import Events
    from layers.evidence import JudgeReport

EXIT_CODES: Mapping[str, int] = {"accepted": 0, "rejected": 1, "inconclusive": 5, "failed": 70}
CLASSES = ("exact", "reorder", "approximate", "config")
OF_CALLABLES = ("reference", "candidate", "inputs", "referee", "metric", "margin", "python")
NEEDED = ("reference", "candidate", "inputs")
STANDARD_INPUT = "-"
USAGE = (
    "fvec judge PATH --patch FILE [options]\n"
    "       fvec judge --reference SPEC --candidate SPEC --inputs SPEC [options]"
)
SPEC = "module:function, or FILE.py:function"


def add(commands: arguments.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "judge", help="judge a given patch of a stack, or a callable against a reference"
    )
    parser.usage = USAGE
    parser.add_argument(
        "path", metavar="PATH", type=Path, nargs="?", help="the serving repository of --patch"
    )
    parser.add_argument("--patch", metavar="FILE", help="a git diff; - reads standard input")
    parser.add_argument(
        "--class",
        dest="change_class",
        choices=CLASSES,
        help="how much outputs may move (default: exact; of a patch that changes only "
        "config.pbtxt files: config)",
    )
    _add_callable(parser)
    arguments.add_out_and_seed(
        parser,
        default=".fvec/NAME/judge; of callables .fvec/judge",
        read_seed=arguments.wide_seed,
    )
    arguments.add_json(parser)
    parser.set_defaults(handler=run, check=partial(_check, parser))


def _add_callable(parser: argparse.ArgumentParser) -> None:
    """Add what names two callables and their inputs."""
    group = parser.add_argument_group(f"callables ({SPEC}), instead of PATH and --patch")
    group.add_argument("--reference", metavar="SPEC", help="what is right, and is to be beaten")
    group.add_argument("--candidate", metavar="SPEC", help="what is judged")
    group.add_argument("--inputs", metavar="SPEC", help="make(rng, batch) -> keyword arguments")
    group.add_argument(
        "--referee",
        metavar="SPEC",
        help="the reference in float64 (default: itself, on inputs cast up)",
    )
    group.add_argument("--metric", metavar="SPEC", help="metric(inputs, outputs) of approximate")
    group.add_argument(
        "--margin",
        metavar="X",
        type=arguments.not_negative,
        help="how much the mean metric may fall",
    )
    group.add_argument(
        "--python", metavar="FILE", type=Path, help="the interpreter of all of them (default: ours)"
    )
    group.add_argument(
        "--sandbox-mode",
        choices=arguments.SANDBOX_MODES,
        help="what the candidate runs in (default: strict; of a patch the manifest decides)",
    )


def _check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """End with the usage where the arguments are of neither target, or of both."""
    given = [name for name in (*OF_CALLABLES, "sandbox_mode") if getattr(args, name) is not None]
    options = [f"--{name.replace('_', '-')}" for name in given]
    if args.path is not None or args.patch is not None:
        if given:
            parser.error(f"{options[0]} is about callables, PATH and --patch about a stack")
        if args.path is None or args.patch is None:
            parser.error("a patch needs both: PATH and --patch FILE")
        return
    absent = [f"--{name}" for name in NEEDED if getattr(args, name) is None]
    if absent:
        target = "callables need" if given else "name PATH and --patch, or callables by"
        parser.error(f"{target} {', '.join(absent)}")
    if args.change_class == "config":
        parser.error("a callable has no configuration: --class exact, reorder or approximate")
    approximate = args.change_class == "approximate"
    if len({approximate, args.metric is not None, args.margin is not None}) > 1:
        parser.error("--class approximate, --metric and --margin go together")


def run(args: argparse.Namespace) -> Outcome:
    """Judge, and leave `judge.json` and `judge.md`: the body that one could paste in a review."""
    from bot import results
    from bot.progress import shown_on
    from bot.render import judge_terminal, judgement

    out = args.out or _folder(args)
    with results.kept_out_of_git(out), shown_on(sys.stderr) as events:
        judge = _patch if args.patch is not None else _callable
        report: JudgeReport = judge(args, out, events)
        files = results.write_judgement(out, "judge", report, judgement.body(report))
    return Outcome(report, judge_terminal.judge(report, files), EXIT_CODES[report.verdict])


def _folder(args: argparse.Namespace) -> Path:
    """Return where results go that were not told where to."""
    if args.path is None:
        return Path(".fvec") / "judge"
    return arguments.results_folder(args.path, None) / "judge"


def _patch(args: argparse.Namespace, out: Path, events: Events) -> JudgeReport:
    """Judge a patch of a stack."""
    from layers.base import ChangeClass

    module = engine.load("layers.judge")
    named = args.patch != STANDARD_INPUT
    name = Path(args.patch).name if named else "patch.diff"
    report: JudgeReport = module.judge_patch(
        args.path,
        module.JudgeOptions(out=out, seed=args.seed, name=name),
        _read(Path(args.patch) if named else None),
        ChangeClass(args.change_class) if args.change_class else None,
        events,
    )
    return report


def _read(file: Path | None) -> bytes:
    """Return the patch in a file, or on standard input; one byte more than is taken is enough."""
    from layers.errors import InvalidInput, Location
    from layers.repository.patches import MOST_BYTES

    if file is None:
        return sys.stdin.buffer.read(MOST_BYTES + 1)
    try:
        with file.open("rb") as stream:
            return stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidInput(
            f"cannot be read: {error.strerror}",
            at=Location(file),
            hint="--patch FILE is a git diff; --patch - reads standard input",
        ) from error


def _callable(args: argparse.Namespace, out: Path, events: Events) -> JudgeReport:
    """Judge a callable against a reference."""
    from layers.base import ChangeClass
    from layers.manifest import SandboxMode, SandboxSection

    module = engine.load("layers.callables.judge")
    options = module.CallableOptions(
        reference=args.reference,
        candidate=args.candidate,
        inputs=args.inputs,
        change_class=ChangeClass(args.change_class or "exact"),
        referee=args.referee,
        metric=args.metric,
        margin=args.margin,
        python=args.python or Path(sys.executable),
        seed=args.seed,
        sandbox=SandboxSection(mode=SandboxMode(args.sandbox_mode or "strict")),
        logs=out / "logs",
    )
    report: JudgeReport = module.judge_callable(options, events)
    return report
