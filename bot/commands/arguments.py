"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from layers.shards import Shard

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?", re.ASCII)
_MINUTES = {"s": 1 / 60, "m": 1.0, "min": 1.0, "h": 60.0}
MOST_MINUTES = 24 * 60
SANDBOX_MODES = ("strict", "no-cgroup", "process")  # as a manifest names them


class Commands(Protocol):
    """Where a command declares itself: what `add_subparsers` of argparse returns."""

    def add_parser(self, name: str, *, help: str) -> argparse.ArgumentParser:
        """Return the parser of a new command."""


def minutes(text: str) -> float:
    """Return a budget in minutes: `20`, `20m`, `90s` and `1.5h` are understood."""
    match = _DURATION.fullmatch(text.strip().lower())
    value = float(match[1]) * _MINUTES[match[2] or "m"] if match else math.nan
    if not 0 < value <= MOST_MINUTES:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time up to 24 h; write 20, 20m, 90s or 1.5h"
        )
    return value


def seed(text: str, bits: int = 32) -> int:
    """Return a seed: a whole number of 32 bits, which every generator accepts, or of `bits`."""
    if not re.fullmatch(r"\d{1,20}", text, re.ASCII) or int(text) >= 2**bits:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to {2**bits - 1}")
    return int(text)


def wide_seed(text: str) -> int:
    """Return a seed of 64 bits, as judgements draw them."""
    return seed(text, 64)


def shard(text: str) -> Shard:
    """Return a part of a run that several runners share: `1/2` is the first of two."""
    from layers.shards import Shard

    try:
        return Shard.read(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def shards(text: str) -> int:
    """Return how many jobs each layer of a run is shared out to; 0 is one job for all of it."""
    if not re.fullmatch(r"\d{1,2}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 99")
    return int(text)


def not_negative(text: str) -> float:
    """Return a finite number that is zero or more."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of zero or more")
    return value


def add_stack(parser: argparse.ArgumentParser) -> None:
    """Add PATH, the serving repository."""
    parser.add_argument("path", metavar="PATH", type=Path, help="the serving repository")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON document on standard output, everything else on standard error",
    )


def add_out_and_seed(
    parser: argparse.ArgumentParser, *, default: str, read_seed: Callable[[str], int] = seed
) -> None:
    """Add --out, whose default is said in words, and --seed."""
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help=f"where results go (default: {default})"
    )
    parser.add_argument(
        "--seed",
        type=read_seed,
        default=0,
        help="seed of all draws but those that a candidate must not foresee (default: 0, which draws "
        "one from the operating system; the report names it)",
    )


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add what `run`, `plan` and `measure` have in common."""
    add_out_and_seed(parser, default=".fvec/NAME, NAME being the name of PATH")
    parser.add_argument(
        "--budget",
        metavar="MINUTES",
        type=minutes,
        help="of `run`: begin no candidate that would not fit into this time with the end of the run "
        "behind it, by what its calibration took: 20, 20m, 900s or 1.5h (default: the manifest's)",
    )
    add_json(parser)


def results_folder(path: Path, out: Path | None) -> Path:
    """Return where the results of a run on `path` go; nothing is written."""
    return out if out is not None else Path(".fvec") / (path.resolve().name or "stack")
