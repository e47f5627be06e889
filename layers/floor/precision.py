"""How numbers are stored and in which dtype arithmetic is done: bytes per element, scales included."""

from __future__ import annotations

from dataclasses import dataclass

# Scales are part of what is read: one float32 for a block of 128 x 128, one byte for 32 (OCP MX),
# one byte for 16 (NVFP4), two bytes for 128 (GPTQ, AWQ groups).
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
}


def bytes_of(stored: str) -> float:
    """Return the bytes of one element; KeyError, naming those known, for another format."""
    try:
        return BYTES[stored]
    except KeyError:
        raise KeyError(f"format {stored!r} is not declared: {', '.join(BYTES)}") from None


@dataclass(frozen=True, slots=True)
class Precision:
    """What a deployment stores and computes in."""

    weights: str = "bf16"
    experts: str = "bf16"
    cache: str = "bf16"
    activations: str = "bf16"
    dispatched: str = "bf16"  # activations on their way to experts
    math: str = "bf16"  # of dense matrices
    expert_math: str = "bf16"
    attention_math: str = "bf16"
