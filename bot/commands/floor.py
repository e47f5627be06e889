"""`fvec floor`: the least time of a decode step, by resource and module, and where a measurement lies."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from bot.commands import arguments, deployment
from bot.commands.outcome import Outcome
from layers.errors import InvalidInput

if TYPE_CHECKING:
    from layers.floor.model import Model
    from layers.floor.sensitivity import Question
    from layers.floor.triage import Timeline

FLAT = 1.3  # of the paper


def add(commands: arguments.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("floor", help="the least time of a decode step, before measuring")
    deployment.add(parser, hardware="name of a card (h20), or a card of your own: a YAML file")
    parser.add_argument(
        "--layout",
        type=deployment.layout,
        required=True,
        help="tp16, ep16+dp, tp8+pp2: how the model is spread over devices",
    )
    parser.add_argument(
        "--batch",
        metavar="N",
        type=deployment.tokens,
        required=True,
        help="sequences that decode at once, over all devices",
    )
    parser.add_argument(
        "--new-tokens",
        metavar="N",
        type=deployment.tokens,
        default=1,
        help="of each sequence a step: more than 1 where drafts are verified (default: 1)",
    )
    _add_measured(parser)
    arguments.add_json(parser)
    parser.set_defaults(handler=run, check=partial(_check, parser))


def run(args: argparse.Namespace) -> Outcome:
    """Build the floor and place the measurement, if there is one."""
    from bot.render import floor as render
    from layers.floor.sensitivity import sensitivity
    from layers.floor.triage import service

    question = _question(args)
    _check_modules(args.kernels, question.model)
    with deployment.refused(question.place.hardware):
        answer = question.answer()
        moves = sensitivity(question)
    held = None
    if args.slo is not None:
        held = service(answer.floor, args.slo, p50_s=args.measured, p99_s=args.p99)
    report = render.FloorReport(question.model, answer, moves, args.measured, held)
    return Outcome(render.floor_document(report), render.floor(report))


def _add_measured(parser: argparse.ArgumentParser) -> None:
    """Add what was measured, and what it is held to."""
    time = partial(parser.add_argument, metavar="TIME", type=deployment.step_time)
    time("--measured", help="median time of a step: 21.4ms")
    time("--p99", help="99th percentile of a step's time, under open-loop load")
    time("--slo", help="what the 99th percentile has to keep")
    parser.add_argument(
        "--threshold",
        metavar="FACTOR",
        type=arguments.not_negative,
        default=FLAT,
        help=f"stop below so many times t_opt (default: {FLAT}, of the paper)",
    )
    time("--gaps", help="of a step in Nsight Systems: no kernel ran")
    time("--exposed", help="of a step in Nsight Systems: only communication ran")
    parser.add_argument(
        "--kernels",
        metavar="MODULE=TIME",
        type=_kernel,
        action="append",
        default=[],
        help="of a step in Nsight Systems: time in a module's kernels (repeatable)",
    )


def _check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Stop with exit code 2 where an option needs another one."""
    profiled = args.gaps or args.exposed or args.kernels
    if profiled and args.measured is None:
        parser.error("--gaps, --exposed and --kernels explain a --measured time")
    if args.p99 is not None and args.slo is None:
        parser.error("--p99 is held to an --slo")
    if args.p99 is not None and args.measured is not None and args.p99 < args.measured:
        parser.error("--p99 is below --measured, the median")
    if args.threshold < 1:
        parser.error("--threshold is at least 1: nothing is faster than t_opt")


def _kernel(text: str) -> tuple[str, float]:
    name, _, time = text.rpartition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not MODULE=TIME, as in attention=6.1ms")
    return name, deployment.step_time(time)


def _question(args: argparse.Namespace) -> Question:
    """Return what is asked; raises InvalidInput for a model, a card or a module's name."""
    from layers.floor.modules import Place, Step
    from layers.floor.sensitivity import Question
    from layers.floor.triage import PAPER, Limit

    model, precision = deployment.read(args)
    place = Place(args.layout, deployment.card(args), precision)
    limit = PAPER if args.threshold == FLAT else Limit(args.threshold, "--threshold")
    step = Step(float(args.batch), float(args.context), float(args.new_tokens))
    return Question(model, step, place, args.measured, limit, _timeline(args))


def _check_modules(kernels: Sequence[tuple[str, float]], model: Model) -> None:
    """Raise InvalidInput for times of a module that the model does not have."""
    known = [part.name for part in model.parts]
    for name, _ in kernels:
        if name not in known:
            hint = f"the modules of {model.name}: {', '.join(known)}"
            raise InvalidInput(f"--kernels {name}: there is no such module", hint=hint)


def _timeline(args: argparse.Namespace) -> Timeline | None:
    from layers.floor.triage import Timeline

    if not (args.gaps or args.exposed or args.kernels):
        return None
    return Timeline(args.gaps or 0.0, args.exposed or 0.0, dict(args.kernels))
