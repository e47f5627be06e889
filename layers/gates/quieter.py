"""Does a candidate tell less than the baseline? By what both arms wrote to their logs. Pure.

What a stack logs may be somebody's training data, audit trail or alert: leaving it out is faster,
and no output shows it. It is said, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal, TypeAlias

from layers.evidence import Block

Pair: TypeAlias = Mapping[Literal["baseline", "candidate"], Block]
Rates: TypeAlias = Sequence[tuple[float, float]]  # per request: the baseline's, the candidate's

LESS = 0.9  # of what the baseline logs per request: in the mean, and in every pair
LEAST_LINES = 0.01  # per request, of a baseline that logs what it is asked
LEAST_PAIRS = 2


def warning(pairs: Sequence[Pair]) -> str | None:
    """Say that the candidate logs clearly less, with the numbers; None where it does not.

    A program may write its lines out in lumps, so one pair alone says little: all of them have to.
    """
    known = [pair for pair in pairs if all(map(_is_known, pair.values()))]
    if len(known) < LEAST_PAIRS:
        return None
    lines = [(_lines(pair["baseline"]), _lines(pair["candidate"])) for pair in known]
    sizes = [(_bytes(pair["baseline"]), _bytes(pair["candidate"])) for pair in known]
    old, new = _means(lines)
    if old < LEAST_LINES or not (_less(lines) or _less(sizes)):
        return None
    old_bytes, new_bytes = _means(sizes)
    return (
        f"it logs less: {new:.3g} lines and {new_bytes:.0f} bytes a request, {old:.3g} and "
        f"{old_bytes:.0f} before ({len(known)} pairs of blocks): is the log training data, an audit "
        "trail or the ground of an alert?"
    )


def _is_known(block: Block) -> bool:
    return block.log_lines is not None and block.log_bytes is not None and block.completed > 0


def _lines(block: Block) -> float:
    return (block.log_lines or 0) / block.completed


def _bytes(block: Block) -> float:
    return (block.log_bytes or 0) / block.completed


def _means(rates: Rates) -> tuple[float, float]:
    return fmean(old for old, _ in rates), fmean(new for _, new in rates)


def _less(rates: Rates) -> bool:
    old, new = _means(rates)
    return new < LESS * old and all(after < LESS * before for before, after in rates)
