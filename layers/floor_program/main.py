"""The program: floors of a step, where a measurement lies, walls of layouts. Standard library alone.

Exit codes: 0 done, 2 wrong usage, 3 an input is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from layers.floor import documents
from layers.floor.layout import Layout, LayoutError
from layers.floor.model import Model
from layers.floor.modules import Place, Step
from layers.floor.sensitivity import Question, sensitivity
from layers.floor.triage import Limit, Timeline, service
from layers.floor.units import formats_of, seconds_of
from layers.floor.walls import Fleet, crossovers, walls
from layers.floor_program import inputs, report

T = TypeVar("T")
EXAMPLES = """\
examples:
  floor.pyz --model config.json --hardware h20 --layout tp16 --batch 64 --context 8192
  floor.pyz ... --measured 21.4ms          what to do about a measured median step time
  floor.pyz --model config.json --hardware h20 --devices 16 --layouts tp16,ep16+dp --context 8192
  floor.pyz --cards                        the hardware that is known
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit code."""
    parser = _parser()
    args = parser.parse_args(argv)
    _check(parser, args)
    try:
        content = inputs.packed()
        if args.cards:
            return _say(sorted(inputs.cards(content)))
        return _walls(args, content) if args.layouts else _floor(args, content)
    except inputs.Refused as error:
        return _refuse(str(error))
    except LayoutError as error:
        return _refuse(f"{error}: another layout, or a card of your own")
    except KeyError as error:  # a dtype or a link that the card lacks
        return _refuse(f"{error.args[0]}: --precision names another, or a card of your own")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="floor.pyz",
        description="The least time of a decode step, before anything is measured.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--cards", action="store_true", help="list the hardware cards that are packed")
    add("--model", metavar="FILE", type=Path, help="config.json of a Hugging Face model")
    add(
        "--hardware",
        metavar="CARD",
        help="a packed card (h20), or a JSON file {id, facts, sources}",
    )
    add("--precision", metavar="KEY=FORMAT,...", type=_typed(formats_of), default={})
    add("--context", metavar="TOKENS", type=_typed(_count), help="in the cache of each sequence")
    add("--layout", type=_typed(Layout.parse), help="tp16, ep16+dp, tp8+pp2")
    add("--batch", metavar="N", type=_typed(_count), help="sequences that decode at once")
    _add_tokens(parser)
    for name, text in (
        ("--measured", "median time of a step: 21.4ms"),
        ("--p99", "99th percentile of it, under open-loop load"),
        ("--slo", "what the 99th percentile has to keep"),
        ("--gaps", "of a step in Nsight Systems: no kernel ran"),
        ("--exposed", "of a step in Nsight Systems: only communication ran"),
    ):
        add(name, metavar="TIME", type=_typed(seconds_of), help=text)
    add(
        "--kernels",
        metavar="MODULE=TIME",
        type=_typed(_kernel),
        action="append",
        default=[],
        help="of a step in Nsight Systems: time in a module's kernels (repeatable)",
    )
    add("--threshold", metavar="FACTOR", type=float, help="stop below so many times t_opt")
    add("--layouts", metavar="LAYOUT,...", type=_typed(_layouts), help="compare their walls")
    add("--devices", metavar="N", type=_typed(_count), help="that the layouts share")
    add("--json", action="store_true", help="print one JSON document")
    return parser


def _add_tokens(parser: argparse.ArgumentParser) -> None:
    """Add how many tokens of each sequence a step takes in, and what for."""
    several = parser.add_mutually_exclusive_group()
    for name, text in (
        ("--new-tokens", "of each sequence in a step: more than 1 where drafts are verified"),
        ("--prefill", "tokens of each sequence's prompt that a step reads, after --context others"),
    ):
        several.add_argument(name, metavar="N", type=_typed(_count), help=text)


def _check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Leave with exit code 2 where options do not go together."""
    if args.cards:
        return
    needed = ("model", "hardware", "context") + (() if args.layouts else ("layout", "batch"))
    for name in needed:
        if getattr(args, name) is None:
            parser.error(f"--{name} is missing")
    _check_measured(parser, args)
    for layout in args.layouts or ():
        devices = args.devices or max(one.devices for one in args.layouts)
        if devices % layout.devices:
            parser.error(f"{layout} takes {layout.devices} devices, which do not fill {devices}")


def _check_measured(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    if (args.gaps or args.exposed or args.kernels) and args.measured is None:
        parser.error("--gaps, --exposed and --kernels explain a --measured time")
    if args.p99 is not None and args.slo is None:
        parser.error("--p99 is held to an --slo")
    if args.p99 is not None and args.measured is not None and args.p99 < args.measured:
        parser.error("--p99 is below --measured, the median")
    if args.threshold is not None and not 1 <= args.threshold < 1e6:
        parser.error("--threshold is at least 1: nothing is faster than t_opt")


def _floor(args: argparse.Namespace, content: Mapping[str, object]) -> int:
    model, precision = inputs.model(args.model, args.precision)
    card = inputs.hardware(args.hardware, inputs.cards(content))
    limit = None if args.threshold is None else Limit(args.threshold, "--threshold")
    question = Question(
        model,
        _step(args),
        Place(args.layout, card, precision),
        args.measured,
        limit,
        _timeline(args, model),
        table=inputs.thresholds(content),
    )
    answer, moves = question.answer(), sensitivity(question)
    held = None
    if args.slo is not None:
        held = service(answer.floor, args.slo, p50_s=args.measured, p99_s=args.p99)
    if not args.json:
        return _say(report.floor_lines(model, answer, moves, held))
    more: dict[str, object] = {
        "service": documents.service_document(held),
        "sensitivity": documents.sensitivity_document(moves),
    }
    return _json({**documents.floor_document(model, answer, args.measured), **more})


def _step(args: argparse.Namespace) -> Step:
    """Return the step that is asked about; of a prompt only the last token has logits."""
    logits = 1.0 if args.prefill else None
    new_tokens = args.prefill or args.new_tokens or 1
    return Step(float(args.batch), float(args.context), float(new_tokens), logits)


def _timeline(args: argparse.Namespace, model: Model) -> Timeline | None:
    """Return what was seen of a step; raises Refused for a module that the model does not have."""
    if not (args.gaps or args.exposed or args.kernels):
        return None
    known = [part.name for part in model.parts]
    for name, _ in args.kernels:
        if name not in known:
            raise inputs.Refused(f"--kernels {name}: not among {', '.join(known)}")
    return Timeline(args.gaps or 0.0, args.exposed or 0.0, dict(args.kernels))


def _walls(args: argparse.Namespace, content: Mapping[str, object]) -> int:
    model, precision = inputs.model(args.model, args.precision)
    card = inputs.hardware(args.hardware, inputs.cards(content))
    devices = args.devices or max(layout.devices for layout in args.layouts)
    fleets = [
        Fleet(
            str(layout),
            model,
            Place(layout, card, precision),
            float(args.context),
            devices // layout.devices,
        )
        for layout in args.layouts
    ]
    found, crossings = [walls(fleet) for fleet in fleets], crossovers(fleets)
    if args.json:
        return _json(documents.walls_document(found, crossings))
    return _say(report.walls_lines(found, crossings))


def _typed(read: Callable[[str], T]) -> Callable[[str], T]:
    """Return a reader whose ValueError argparse shows."""

    def typed(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return typed


def _kernel(text: str) -> tuple[str, float]:
    name, _, time = text.rpartition("=")
    if not name:
        raise ValueError(f"{text!r} is not MODULE=TIME, as in attention=6.1ms")
    return name, seconds_of(time)


def _count(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or not 1 <= int(text[:12]) <= 10**9:
        raise ValueError(f"{text[:20]!r} is not a whole number from 1 to 10^9")
    return int(text)


def _layouts(text: str) -> list[Layout]:
    return [Layout.parse(name) for name in text.split(",")]


def _say(lines: Iterable[str]) -> int:
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _json(document: dict[str, object]) -> int:
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return 0


def _refuse(reason: str) -> int:
    sys.stderr.write(f"error: {reason}\n")
    return 3
