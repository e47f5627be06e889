"""`fvec floor`: the least time of a decode step, by resource and module, and where a measurement lies."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bot.commands import arguments, calibrating, deployment
from bot.commands.outcome import Outcome
from layers.errors import InvalidInput

if TYPE_CHECKING:
    from layers.floor.model import Model
    from layers.floor.sensitivity import Question
    from layers.floor.triage import Timeline


REQUIRED = ("model", "hardware", "layout")  # but for a calibration


def add(commands: arguments.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "floor", help="the least time that a decode step of a language model can take"
    )
    card = "name of a card (h20), or a card of your own: a YAML file"
    deployment.add(parser, hardware=card, required=False)
    parser.add_argument(
        "--layout",
        type=deployment.layout,
        help="how the model is spread over devices, tensor, expert, data or pipeline parallel: tp16, "
        "ep16+dp, tp8+pp2",
    )
    parser.add_argument(
        "--batch",
        metavar="N",
        type=deployment.tokens,
        help="sequences that decode at once, over all devices",
    )
    drafted = parser.add_mutually_exclusive_group()
    drafted.add_argument(
        "--new-tokens",
        metavar="N",
        type=deployment.tokens,
        help="of each sequence in a step: more than 1 where drafts are verified (default: 1)",
    )
    drafted.add_argument(
        "--drafts",
        metavar="N",
        type=deployment.tokens,
        help="tokens that the model's own draft layers predict for each step, which verifies them",
    )
    drafted.add_argument(
        "--prefill",
        metavar="N",
        type=deployment.tokens,
        help="tokens of each sequence's prompt that a step reads, after --context others",
    )
    parser.add_argument(
        "--from",
        dest="results",
        metavar="FILE",
        type=Path,
        help="take batch, context and times from results of vLLM, SGLang, AIPerf or GuideLLM",
    )
    parser.add_argument(
        "--run", metavar="N", type=deployment.tokens, help="of several runs in that file, the N-th"
    )
    _add_measured(parser)
    calibrating.add(parser)
    arguments.add_json(parser)
    parser.set_defaults(handler=run, check=partial(_check, parser))


def run(args: argparse.Namespace) -> Outcome:
    """Build the floor and place the measurement, if there is one; or measure this machine."""
    if args.calibrate:
        return calibrating.run(args.out)
    from bot.render import floor as render
    from layers.floor.sensitivity import sensitivity
    from layers.floor.triage import service

    step = _step(args)
    question = _question(args, step)
    _check_modules(args.kernels, question.model)
    with deployment.refused(question.place.hardware):
        answer = question.answer()
        moves = sensitivity(question)
    held = None
    if args.slo is not None:
        held = service(answer.floor, args.slo, p50_s=step.measured_s, p99_s=step.p99_s)
    report = render.FloorReport(
        question.model, answer, moves, step.measured_s, held, step.how, step.doubts
    )
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
        help="stop below so many times t_opt (default: measured ones by class of operation, dtype "
        "and hardware family, the paper's 1.3 where there is none)",
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
    if args.calibrate:
        return
    measured = args.measured is not None or args.results
    for name in REQUIRED:
        if getattr(args, name) is None:
            parser.error(f"--{name} is missing (or --calibrate, which measures this machine)")
    _check_step(parser, args)
    if (args.gaps or args.exposed or args.kernels) and not measured:
        parser.error("--gaps, --exposed and --kernels explain a --measured time")
    if args.p99 is not None and args.slo is None:
        parser.error("--p99 is held to an --slo")
    if args.p99 is not None and args.measured is not None and args.p99 < args.measured:
        parser.error("--p99 is below --measured, the median")
    if args.threshold is not None and args.threshold < 1:
        parser.error("--threshold is at least 1: nothing is faster than t_opt")


def _check_step(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Stop with exit code 2 where it is not said which step is asked about."""
    if args.results is None and (args.batch is None or args.context is None):
        parser.error("--batch and --context say which step it is, or --from a file of results")
    if args.prefill is not None and args.results is not None:
        parser.error("--prefill reads prompts: a file of results times steps that decode")
    if args.run is not None and args.results is None:
        parser.error("--run is one of those in the file that --from names")


def _kernel(text: str) -> tuple[str, float]:
    name, _, time = text.rpartition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not MODULE=TIME, as in attention=6.1ms")
    return name, deployment.step_time(time)


@dataclass(frozen=True, slots=True)
class _Measured:
    """Which step is asked about, and what was measured of it."""

    batch: float
    context: float
    new_tokens: float
    measured_s: float | None
    p99_s: float | None
    how: tuple[str, ...] = ()  # a file of results was read
    doubts: tuple[str, ...] = ()  # about it


def _step(args: argparse.Namespace) -> _Measured:
    """Return the step of the options, and of the file for what they leave open; raises InvalidInput."""
    new_tokens = args.drafts + 1 if args.drafts else args.prefill or args.new_tokens
    if args.results is None:
        return _Measured(args.batch, args.context, new_tokens or 1, args.measured, args.p99)
    from layers.bench_files.measured import measured_step
    from layers.bench_files.read import read_benchmark

    result = read_benchmark(args.results, args.run)
    found = measured_step(result)
    return _Measured(
        args.batch or found.batch,
        args.context or found.context,
        new_tokens or found.new_tokens,
        args.measured or found.measured_s,
        args.p99 or (found.p99_s if result.paced else None),  # a closed loop hides queueing
        found.how,
        found.doubts,
    )


def _question(args: argparse.Namespace, asked: _Measured) -> Question:
    """Return what is asked; raises InvalidInput for a model or a card."""
    from layers.floor.modules import Place, Step
    from layers.floor.sensitivity import Question
    from layers.floor.triage import Limit

    model, precision = deployment.read(args)
    if args.drafts and not model.draft:
        hint = "--new-tokens says how many a step verifies that something else predicted"
        raise InvalidInput(f"--drafts: {model.name} has no draft layers", hint=hint)
    place = Place(args.layout, deployment.card(args), precision)
    limit = Limit(args.threshold, "--threshold") if args.threshold else None
    sizes = float(asked.batch), float(asked.context), float(asked.new_tokens)
    step = Step(*sizes, _logits(args))
    return Question(
        model,
        step,
        place,
        asked.measured_s,
        limit,
        _timeline(args),
        args.drafts or 0,
        deployment.thresholds(args.cards),
    )


def _logits(args: argparse.Namespace) -> float | None:
    """Return how many tokens of each sequence need logits: of a prompt the last, of drafts and theirs all."""
    if args.prefill:
        return 1.0
    return args.drafts + 1.0 if args.drafts else None


def _check_modules(kernels: Sequence[tuple[str, float]], model: Model) -> None:
    """Raise InvalidInput for times of a module that the model does not have."""
    known = [part.name for part in (*model.parts, *model.draft)]
    for name, _ in kernels:
        if name not in known:
            hint = f"the modules of {model.name}: {', '.join(known)}"
            raise InvalidInput(f"--kernels {name}: there is no such module", hint=hint)


def _timeline(args: argparse.Namespace) -> Timeline | None:
    from layers.floor.triage import Timeline

    if not (args.gaps or args.exposed or args.kernels):
        return None
    return Timeline(args.gaps or 0.0, args.exposed or 0.0, dict(args.kernels))
