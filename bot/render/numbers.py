"""Numbers as people read them: three significant digits, a unit, one form everywhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

TIMES = "\N{MULTIPLICATION SIGN}"
NO_BREAK = "\N{NO-BREAK SPACE}"  # keeps a number and its unit on one line
ABSENT = "\N{EN DASH}"
DIGITS = 3


def decimals(value: float) -> int:
    """Return how many decimals show `value` with three significant digits, 0 to 6."""
    if value == 0 or not math.isfinite(value):
        return 0
    # Rounded first: 9.996 is shown as 10.0, not as 10.00.
    rounded = float(f"{value:.{DIGITS - 1}e}")
    return min(6, max(0, DIGITS - 1 - math.floor(math.log10(abs(rounded)))))


def number(value: float) -> str:
    """Return `value` with three significant digits: 0.0123, 1.23, 12.3, 1,230, 1.2e-7."""
    if value == 0:
        return "0"
    if abs(value) < 1e-4 or abs(value) >= 1e9:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    places = decimals(value)
    if places == 0 and abs(value) >= 1000:
        value = float(f"{value:.{DIGITS - 1}e}")
    return f"{value:,.{places}f}"


def setting(value: float) -> str:
    """Return a number that a person set, as it was set: 60, 0.0001, 2.5."""
    return f"{value:.10g}"


def count(value: int) -> str:
    """Return a count in full, with thousands separators."""
    return f"{value:,d}"


def counted(value: int, noun: str, plural: str = "s") -> str:
    """Return a count of something: 1 launch, 1,200 requests; `plural` is what more than one add."""
    return f"{count(value)} {noun}{'' if value == 1 else plural}"


def times(ratio: float) -> str:
    """Return a ratio: 1.41x, with a multiplication sign."""
    return f"{number(ratio)}{TIMES}"


def between(ends: Sequence[float], estimate: float | None = None) -> str:
    """Return an interval, both ends with the decimals of its estimate: `1.36 to 1.46`."""
    low, high = ends
    places = decimals(high if estimate is None else estimate)
    return f"{low:,.{places}f} to {high:,.{places}f}"


def times_between(ratio: float, ci: Sequence[float]) -> str:
    """Return a ratio with its interval: `1.41x (1.36 to 1.46)`."""
    return f"{times(ratio)} ({between(ci, ratio)})"


def percent(share: float) -> str:
    """Return a share, 0 to 1, as a percentage: `12.3 %`."""
    return f"{number(100 * share)}{NO_BREAK}%"


def points(value_pct: float) -> str:
    """Return a value that is a percentage already: `2.10 %`."""
    return f"{number(value_pct)}{NO_BREAK}%"


def ms(value_ms: float) -> str:
    """Return a time in milliseconds."""
    return f"{number(value_ms)}{NO_BREAK}ms"


def per_second(rate: float) -> str:
    """Return a rate of requests."""
    return f"{number(rate)}{NO_BREAK}req/s"


def money(usd: float) -> str:
    """Return an amount of US dollars: `1,234.50 USD`; below ten cents two digits: `0.0042 USD`."""
    amount = f"{usd:,.2f}" if usd >= 0.1 or usd == 0 else f"{usd:.2g}"
    return f"{amount}{NO_BREAK}USD"


def duration(wall_s: float) -> str:
    """Return a stretch of time: `42 s`, `12 min 30 s`, `2 h 05 min`."""
    seconds = round(wall_s)
    if seconds < 60:
        return f"{seconds}{NO_BREAK}s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}{NO_BREAK}min {seconds:02d}{NO_BREAK}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}{NO_BREAK}h {minutes:02d}{NO_BREAK}min"


def short(commit: str) -> str:
    """Return the first ten digits of a commit."""
    return commit[:10]


def moment(at: str) -> str:
    """Return a moment in ISO 8601 as people read it: `2026-01-30 06:00 UTC`; of no moment a dash.

    One without a zone is of UTC, wherever it is read.
    """
    try:
        found = datetime.fromisoformat(at)
        found = found.astimezone(UTC) if found.tzinfo else found
    except (ValueError, OverflowError):
        return ABSENT
    return f"{found:%Y-%m-%d %H:%M} UTC"
