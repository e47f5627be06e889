"""What is served where: the options that `floor` and `walls` share, and the values that they name."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from layers.errors import InvalidInput, Location

if TYPE_CHECKING:
    from layers.floor.hardware import Hardware
    from layers.floor.layout import Layout
    from layers.floor.model import Model
    from layers.floor.precision import Precision
    from layers.floor.thresholds import Table
    from layers.floor.triage import Limit

T = TypeVar("T")

MOST_CONFIG_BYTES = 1 << 23  # a quantisation config may list each of 20,000 matrices
MOST_TOKENS = 10**9
CONFIG = "config.json"
THRESHOLDS = "stop-thresholds"
QUANTISATION = "hf_quant_config.json"
_THRESHOLD = re.compile(r"(\d{1,3}(?:\.\d{1,6})?) (\d{1,3}(?:\.\d{1,6})?(?:e-\d{1,2})?)", re.ASCII)
_WHOLE = re.compile(r"\d{1,10}", re.ASCII)


def add(parser: argparse.ArgumentParser, *, hardware: str, required: bool = True) -> None:
    """Add --model, --quantisation, --precision, --hardware, --cards and --context.

    What a deployment cannot do without may be left out unless `required`.
    """
    parser.add_argument(
        "--model",
        metavar="FILE",
        type=Path,
        required=required,
        help="config.json of a Hugging Face model, or its folder",
    )
    parser.add_argument(
        "--quantisation",
        metavar="FILE",
        type=Path,
        help=f"how its weights are stored (default: {QUANTISATION} beside it, if there is one)",
    )
    parser.add_argument(
        "--precision",
        metavar="KEY=FORMAT,...",
        type=precision,
        default={},
        help="what the deployment stores or computes otherwise: cache=fp8,math=fp8",
    )
    parser.add_argument("--hardware", metavar="CARD", required=required, help=hardware)
    parser.add_argument(
        "--cards",
        metavar="DIR",
        type=Path,
        action="append",
        default=[],
        help="read hardware cards here too; they override packaged ones of the same id",
    )
    parser.add_argument(
        "--context",
        metavar="TOKENS",
        type=tokens,
        required=required,
        help="tokens in the cache of each sequence",
    )


def tokens(text: str) -> int:
    """Return a whole number of tokens or sequences, 1 to MOST_TOKENS."""
    if not _WHOLE.fullmatch(text) or not 1 <= int(text) <= MOST_TOKENS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {MOST_TOKENS}")
    return int(text)


def step_time(text: str) -> float:
    """Return seconds: `21.4ms`, `350us` and `0.2s` are understood."""
    from layers.floor.units import seconds_of

    return _typed(seconds_of, text)


def layout(text: str) -> Layout:
    """Return one layout, as `Layout.parse` reads it."""
    from layers.floor.layout import Layout, LayoutError

    try:
        return Layout.parse(text)
    except LayoutError as error:
        raise argparse.ArgumentTypeError(f"{error}; write tp16, ep16+dp or tp8+pp2") from error


def precision(text: str) -> dict[str, str]:
    """Return the fields of `Precision` that are given as `cache=fp8,math=fp8`."""
    from layers.floor.units import formats_of

    return _typed(formats_of, text)


def _typed(reader: Callable[[str], T], text: str) -> T:
    """Return what is read; argparse shows why it cannot be."""
    try:
        return reader(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def read(args: argparse.Namespace) -> tuple[Model, Precision]:
    """Return the model and how it is stored. Raises InvalidInput with the file and a hint."""
    from layers.floor import configs

    path: Path = args.model / CONFIG if args.model.is_dir() else args.model
    name = path.resolve().parent.name if path.name == CONFIG else path.stem
    beside = path.with_name(QUANTISATION)
    given = args.quantisation or (beside if beside.is_file() else None)
    try:
        quantised = _document(given) if given else None
        model, stored = configs.read(_document(path), quantised, name=name)
    except configs.ConfigError as error:
        message = str(error).partition("\n")[0]
        raise InvalidInput(message, at=Location(path), hint=error.hint) from error
    return model, replace(stored, **args.precision)


def card(args: argparse.Namespace) -> Hardware:
    """Return the hardware that is named. Raises InvalidInput, with the place or what is close."""
    from layers import hardware_cards

    return hardware_cards.read(args.hardware, args.cards)


def thresholds(directories: Sequence[Path]) -> Table:
    """Return the measured stop thresholds: the packaged card's, or those of a card in `directories`.

    Raises InvalidInput for an entry that is no factor and seconds.
    """
    from knowledge.cards import FactCard
    from knowledge.store import builtin_directory, card_files, load_card

    paths = [
        path
        for directory in (builtin_directory() / "hardware", *directories)
        for path in card_files(directory)
        if path.stem == THRESHOLDS
    ]
    card = load_card(paths[-1]) if paths else None
    facts = card.facts if isinstance(card, FactCard) else {}
    classes = {name: rows for name, rows in facts.items() if isinstance(rows, dict)}
    return {
        name: {key: _limit(text, f"{name}.{key}", paths[-1]) for key, text in rows.items()}
        for name, rows in classes.items()
    }


def _limit(text: str, name: str, path: Path) -> Limit:
    from layers.floor.triage import Limit

    match = _THRESHOLD.fullmatch(text)
    if match is None or float(match[1]) < 1:
        hint = "a factor of at least 1 and seconds: 1.42 6e-06"
        raise InvalidInput(f"{name}: {text[:40]!r} is no threshold", at=Location(path), hint=hint)
    below = "as near as measured kernels come to the limit of"
    return Limit(float(match[1]), "measured kernels", float(match[2]), below)


@contextmanager
def refused(hardware: Hardware) -> Iterator[None]:
    """Turn what a card lacks, or a layout cannot be, into an InvalidInput."""
    from layers.floor.layout import LayoutError

    try:
        yield
    except LayoutError as error:
        raise InvalidInput(str(error), hint="another --layout, or a card of your own") from error
    except KeyError as error:
        message = str(error.args[0])
        hint = (
            f"--precision names another format, or add it to a card of your own for {hardware.name}"
        )
        raise InvalidInput(message, hint=hint) from error


def _document(path: Path) -> Mapping[str, Any]:
    """Return a JSON object from a file. Raises InvalidInput."""
    at = Location(path)
    try:
        with path.open("rb") as file:
            content = file.read(MOST_CONFIG_BYTES + 1)
    except OSError as error:
        hint = "--model takes a config.json, or the folder that holds it"
        raise InvalidInput(error.strerror or "cannot be read", at=at, hint=hint) from error
    if len(content) > MOST_CONFIG_BYTES:
        raise InvalidInput(f"larger than {MOST_CONFIG_BYTES} bytes: not a config", at=at)
    try:
        found = json.loads(content, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        where = Location(path, error.lineno, error.colno)
        raise InvalidInput(f"not JSON: {error.msg}", at=where) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"not JSON that can be read: {error}", at=at) from error
    if not isinstance(found, dict):
        raise InvalidInput("not a JSON object", at=at, hint="config.json of a Hugging Face model")
    return found


def _no_number(name: str) -> float:
    """Return an infinity, which configurations state for an open limit. Raises ValueError for NaN."""
    if name == "NaN":
        raise ValueError(f"{name} is no number")
    return float(name)
