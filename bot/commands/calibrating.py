"""`fvec floor --calibrate`: what this machine does, as hardware cards."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bot.commands.outcome import Outcome
from layers.errors import InvalidInput

CARDS = Path(".fvec/cards")


def add(parser: argparse.ArgumentParser) -> None:
    """Add --calibrate and --out."""
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help="measure this machine instead, and write hardware cards for --cards",
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, default=CARDS, help=f"of these cards (default: {CARDS})"
    )


def run(out: Path) -> Outcome:
    """Measure memory, matrices and messages, and write the cards.

    Raises Missing without a numerical library, ToolFailed where a probe breaks, InvalidInput where the cards
    cannot be written.
    """
    from bot.render import calibration as render
    from layers.calibration import card, machine

    found = machine.calibrate(told=_tell)
    try:
        paths = card.write(found, out)
    except OSError as error:
        raise InvalidInput(f"{out}: {error.strerror}", hint="--out names a folder") from error
    return Outcome(render.calibration_document(found, paths), render.calibration(found, paths))


def _tell(done: int, of: int) -> None:
    """Count the repetitions where somebody watches."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\rrepetition {done} of {of}" + ("\n" if done == of else ""))
        sys.stderr.flush()
