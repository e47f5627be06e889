"""Measured stop thresholds for the parts of a model, by class of operation, dtype and hardware family.

A table holds, for each class, limits under "dtype family" (`gemm`: `fp8_block hopper`). It comes from measured
operations (see the card `stop-thresholds`); what it does not hold has the paper's flat threshold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from layers.floor.floors import Floor
from layers.floor.model import Part
from layers.floor.modules import (
    Attention,
    DeltaNet,
    GatedMLP,
    Head,
    LatentAttention,
    Matrices,
    MixtureOfExperts,
    Module,
    StateSpace,
    Step,
)
from layers.floor.precision import Format, Mix, Precision
from layers.floor.triage import PAPER, Limit

Table: TypeAlias = Mapping[str, Mapping[str, Limit]]

GEMM = "gemm"
NAMES = {"bf16": "bfloat16", "fp16": "bfloat16", "int4": "int4_wo"}  # as the table has them
READING = {"decode_attention": "context_attention", "mla_decode": "mla_context"}  # of a prompt


@dataclass(frozen=True, slots=True)
class _Kernels:
    """What a module runs: one kernel of a class of its own, if any, and products of matrices.

    Projections of the same input count as one product: kernels fuse them.
    """

    own: str | None
    products: int


KERNELS: Mapping[type[Module], _Kernels] = {
    Attention: _Kernels("decode_attention", 2),
    LatentAttention: _Kernels("mla_decode", 3),
    MixtureOfExperts: _Kernels("experts", 1),
    StateSpace: _Kernels("linear_attention", 2),
    DeltaNet: _Kernels("linear_attention", 2),
    GatedMLP: _Kernels(None, 2),
    Head: _Kernels(None, 1),
    Matrices: _Kernels(None, 1),
}


def part_limits(found: Floor, parts: Iterable[Part], table: Table) -> dict[str, Limit]:
    """Return the limits of those parts for whose kernels the table has any.

    Factors are weighed by bytes: caches and states are the own kernel's, all else that of products, but for
    experts, which are their kernel's. Fixed times are those of all kernels of all layers of a part.
    """
    family = found.place.hardware.family
    limits = {}
    for part in parts:
        kernels = KERNELS.get(type(part.module))
        if kernels is None or part.name not in found.parts:
            continue
        differs: dict[str, Any] = dict(part.differs)
        precision = replace(found.place.precision, **differs)
        product = table.get(GEMM, {}).get(f"{_name(precision.weights)} {family}")
        own = table.get(_class(kernels, found.step), {}).get(
            f"{_dtype(kernels.own, precision)} {family}"
        )
        if product or own:
            limits[part.name] = _limit(found, part, kernels, own, product)
    return limits


def _limit(
    found: Floor, part: Part, kernels: _Kernels, own: Limit | None, product: Limit | None
) -> Limit:
    account = found.parts[part.name]
    share = 1.0 if kernels.own == "experts" else account.sequence_bytes / account.hbm_bytes
    of_own, of_product = own or PAPER, product or PAPER
    factor = share * of_own.factor + (1 - share) * of_product.factor
    fixed_s = (of_own.fixed_s if kernels.own else 0.0) + kernels.products * of_product.fixed_s
    used = [limit.source for limit in (of_own, of_product)] if kernels.own else [of_product.source]
    source = " and ".join(sorted(set(used), key=lambda source: source == PAPER.source))
    return Limit(factor, source, part.count * fixed_s, (own or product or PAPER).below)


def _class(kernels: _Kernels, step: Step) -> str:
    """Return what the table calls a kernel: attention of a prompt is another one than of a decoded token."""
    own = kernels.own or ""
    prompt = step.logits is not None and bool(step.logits < step.new_tokens)
    return READING.get(own, own) if prompt else own


def _dtype(own: str | None, precision: Precision) -> str:
    """Return how the table names what a kernel of a class of its own computes in."""
    if own == "decode_attention":
        return f"{_name(precision.attention_math)}/{_name(precision.cache)}"
    if own == "mla_decode":
        return _name(precision.cache)
    if own == "experts":
        return _experts(precision)
    return "any"


def _experts(precision: Precision) -> str:
    stored = _name(precision.experts)
    if stored != "mxfp4":
        return stored
    return "w4a8_mxfp4_mxfp8" if _name(precision.expert_math) == "fp8" else "w4a16_mxfp4"


def _name(stored: Format) -> str:
    """Return a format's name in the table; of several formats that of the most parameters."""
    if isinstance(stored, Mix):
        stored = max(stored.shares, key=lambda share: share[1])[0]
    plain = stored.partition("/")[0]
    return NAMES.get(plain, plain)
