"""What a person writes for a time or for formats, as numbers and names."""

from __future__ import annotations

import re
from dataclasses import fields

from layers.floor.facts import DTYPES
from layers.floor.precision import BYTES, TRAVELS, Precision

_TIME = re.compile(r"(\d{1,12}(?:\.\d{1,12})?) ?(us|ms|s)", re.ASCII)
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


def seconds_of(text: str) -> float:
    """Return seconds: `21.4ms`, `350us` and `0.2s` are understood, else ValueError."""
    match = _TIME.fullmatch(text.strip().lower())
    value = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not value > 0:
        raise ValueError(f"{text!r} is not a time; write 21.4ms, 350us or 0.2s")
    return value


def formats_of(text: str) -> dict[str, str]:
    """Return the fields of `Precision` that are given as `cache=fp8,math=fp8`; ValueError else.

    What is stored has a format, arithmetic a dtype. A cache in FP8 can be multiplied as it is, as where the
    checkpoint states one; `attention_math=bf16` says that it is not. Tokens travel to experts as these multiply them.
    """
    known = [field.name for field in fields(Precision)]
    found: dict[str, str] = {}
    for item in text.split(","):
        key, _, stored = item.strip().partition("=")
        if key not in known or key in found:
            raise ValueError(f"{key!r} is not one of {', '.join(known)}, once each")
        formats = DTYPES if key.endswith("math") else tuple(BYTES)
        if stored not in formats:
            raise ValueError(f"{stored!r} is not one of {', '.join(formats)}")
        found[key] = stored
    if found.get("cache") == "fp8":
        found.setdefault("attention_math", "fp8")
    if found.get("expert_math") in TRAVELS:
        found.setdefault("dispatched", TRAVELS[found["expert_math"]])
    return found
