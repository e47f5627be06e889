"""How numbers are stored and in which dtype arithmetic is done: bytes per element, scales included."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from typing import TypeAlias

from layers.floor.account import Quantity

# Scales are part of what is read: one float32 for a block of 128 x 128, one byte for 32 (OCP MX),
# one byte for 16 (NVFP4), two bytes for 128 (GPTQ, AWQ groups). `int4/32` names another group;
# one scale for a row is as good as none.
BYTES = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "fp8_block": 1.0 + 4 / 128**2,
    "int8": 1.0,
    "mxfp8": 1.0 + 1 / 32,
    "nvfp4": 0.5 + 1 / 16,
    "mxfp4": 0.5 + 1 / 32,
    "int4": 0.5 + 2 / 128,
    "int4_row": 0.5,
}
_GROUPED = {"int4": 0.5, "int8": 1.0}

# The dtype in which a format can be multiplied as it is; what is not here is widened first.
DTYPE_OF = {
    "fp8": "fp8",
    "fp8_block": "fp8",
    "mxfp8": "fp8",
    "int8": "int8",
    "nvfp4": "fp4",
    "mxfp4": "fp4",
}

# The least that a token takes on its way to experts, by what these multiply; else as it is.
TRAVELS = {"fp8": "fp8", "fp4": "nvfp4"}

# A device without tensor cores for a dtype widens the operands to the first of these that it has.
WIDER = {
    "fp4": ("fp8", "bf16", "fp16"),
    "fp8": ("bf16", "fp16"),
    "int8": ("bf16", "fp16"),
    "bf16": ("fp16",),
    "fp16": ("bf16",),
}


@dataclass(frozen=True, slots=True)
class Mix:
    """Several formats (or dtypes of arithmetic) in one part, each with its share of the parameters."""

    shares: tuple[tuple[str, float], ...]


Format: TypeAlias = str | Mix


def bytes_of(stored: Format) -> float:
    """Return the bytes of one element; KeyError, naming those known, for another format."""
    if isinstance(stored, Mix):
        return sum(share * bytes_of(one) for one, share in stored.shares)
    name, _, group = stored.partition("/")
    if group.isdecimal() and int(group) and name in _GROUPED:
        return _GROUPED[name] + 2 / int(group)
    try:
        return BYTES[stored]
    except KeyError:
        raise KeyError(f"format {stored!r} is not declared: {', '.join(BYTES)}") from None


def by_dtype(math: Format, flops: Quantity) -> dict[str, Quantity]:
    """Return the FLOPs by dtype of their arithmetic."""
    shares = math.shares if isinstance(math, Mix) else ((math, 1.0),)
    found: dict[str, Quantity] = {}
    for dtype, share in shares:
        found[dtype] = found.get(dtype, 0.0) + flops * share
    return found


@dataclass(frozen=True, slots=True)
class Precision:
    """What a deployment stores and computes in."""

    weights: Format = "bf16"
    experts: Format = "bf16"
    cache: str = "bf16"
    activations: str = "bf16"
    dispatched: str = "bf16"  # activations on their way to experts
    math: Format = "bf16"  # of dense matrices
    expert_math: Format = "bf16"
    attention_math: str = "bf16"
    index_math: str = "fp8"  # of a sparse attention's indexer

    def on(self, dtypes: Container[str]) -> Precision:
        """Return the same, computed in the next wider dtype where a device has no peak for one."""
        return replace(
            self,
            math=_on(self.math, dtypes),
            expert_math=_on(self.expert_math, dtypes),
            attention_math=_widened(self.attention_math, dtypes),
            index_math=_widened(self.index_math, dtypes),
        )


def _on(math: Format, dtypes: Container[str]) -> Format:
    if isinstance(math, Mix):
        return Mix(tuple((_widened(dtype, dtypes), share) for dtype, share in math.shares))
    return _widened(math, dtypes)


def _widened(dtype: str, dtypes: Container[str]) -> str:
    """Return the dtype itself where there is no wider one either: the card's error names it."""
    return next((one for one in (dtype, *WIDER.get(dtype, ())) if one in dtypes), dtype)
