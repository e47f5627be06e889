"""Hardware from the facts of a card: the one place where names of constants become fields.

Sources of the constants are the card's; whoever reads one holds it to them. Here a wrong value is refused, so
that a card in JSON is as strict as one in YAML.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence

from layers.floor.hardware import SCALE_OUT, SCALE_UP, Hardware, Link

PEAK = "_flops_per_s"
DTYPES = ("fp32", "bf16", "fp16", "fp8", "int8", "fp4")
NUMBERS = (
    "memory_bytes",
    "hbm_bytes_per_s",
    *(dtype + PEAK for dtype in DTYPES),
    "cache_bytes",
    "cache_bytes_per_s",
    "scale_up_devices",
    "scale_up_bytes_per_s",
    "scale_up_latency_s",
    "scale_out_bytes_per_s",
    "scale_out_latency_s",
    "reserve_bytes",
)
NEEDED = ("memory_bytes", "hbm_bytes_per_s")


def hardware(name: str, facts: Mapping[str, object]) -> Hardware:
    """Return a card's constants. Raises ValueError, naming the constant that is missing or wrong."""
    known = {*NUMBERS, "family", "scale_up_reduces", "source_of"}
    if unknown := sorted(facts.keys() - known):
        raise ValueError(f"{name}: {', '.join(unknown)}: not among {', '.join(sorted(known))}")
    numbers = {key: _positive(name, key, facts[key]) for key in NUMBERS if key in facts}
    for key in NEEDED:
        if key not in numbers:
            raise ValueError(f"{name}: {key} is missing")
    peaks = {dtype: numbers[dtype + PEAK] for dtype in DTYPES if dtype + PEAK in numbers}
    if not peaks:
        raise ValueError(f"{name}: no peak: at least one of {', '.join(d + PEAK for d in DTYPES)}")
    return Hardware(
        name,
        numbers["memory_bytes"],
        numbers["hbm_bytes_per_s"],
        peaks,
        dict(_links(numbers, reduces=facts.get("scale_up_reduces") is True)),
        int(numbers.get("scale_up_devices", 1)),
        numbers.get("cache_bytes", 0.0),
        numbers.get("cache_bytes_per_s", 0.0),
        numbers.get("reserve_bytes", 0.0),
        str(facts.get("family", "")),
    )


def _links(numbers: Mapping[str, float], *, reduces: bool) -> Iterator[tuple[str, Link]]:
    for link, adds in ((SCALE_UP, reduces), (SCALE_OUT, False)):
        rate = numbers.get(f"{link}_bytes_per_s")
        if rate is not None:
            yield link, Link(rate, numbers.get(f"{link}_latency_s", 0.0), adds)


def _positive(name: str, key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"{name}: {key} is {value!r}, not a number above 0")
    return float(value)


def chosen(name: str, known: Sequence[str]) -> str:
    """Return the card that `name` means: itself, or the one of that name without its maker's.

    Raises ValueError with those that are near.
    """
    if name in known:
        return name
    meant = [one for one in known if one.partition("-")[2] == name.lower()]
    if len(meant) == 1:
        return meant[0]
    close = [one for one in known if name.lower() in one] or difflib.get_close_matches(
        name.lower(), known
    )
    near = f"did you mean {', '.join(close)}?" if close else f"known: {', '.join(known)}"
    raise ValueError(f"no hardware card {name[:60]!r}: {near}")
