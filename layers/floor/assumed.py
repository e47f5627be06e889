"""What an answer leaves open: by the model's configuration, by the card, by the formats, and by the layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from layers.floor.hardware import SCALE_OUT, SCALE_UP
from layers.floor.layout import Layout
from layers.floor.model import Model, Part
from layers.floor.modules import (
    Attention,
    CompressedAttention,
    Embedding,
    Head,
    LatentAttention,
    MixtureOfExperts,
    Place,
    Step,
    Tower,
)
from layers.floor.precision import DTYPE_OF

OUTSIDE = (Embedding, Head, Tower)  # of the layers


def assumptions(model: Model, place: Place, step: Step | None = None) -> list[str]:
    """Return what a configuration, a card, formats, a layout and a step leave open, and what was taken."""
    told = list(model.assumptions)
    told += _latencies(place)
    if not place.hardware.reserve_bytes:
        told.append("the card states no reserve: weights and cache may fill the memory")
    told += _formats(model, place)
    told += _uneven(model, place.layout)
    if step is not None and step.logits is None and step.new_tokens > 1:
        told.append(
            "logits of all new tokens, as where drafts are verified; --prefill: of the last alone"
        )
    return told


def unstated(place: Place) -> list[str]:
    """Return the links that a layout uses and whose latency the card does not state."""
    hardware, devices = place.hardware, place.layout.devices
    used = {
        SCALE_UP: devices > 1 and hardware.devices_per_node > 1,
        SCALE_OUT: devices > hardware.devices_per_node,
    }
    known = {name: link.latency_s for name, link in hardware.links.items()}
    return [name for name, uses in used.items() if uses and known.get(name) == 0]


def _latencies(place: Place) -> Iterator[str]:
    silent = unstated(place)
    if silent and not any(link.latency_s for link in place.hardware.links.values()):
        yield "the card states no latency: messages take no time"
        return
    for name in silent:
        yield f"the card states no latency of {name}: its messages take no time"


def _formats(model: Model, place: Place) -> Iterator[str]:
    """Yield where arithmetic is wider than what is stored, by choice or for want of a peak."""
    precision, peaks = place.precision, place.hardware.flops_per_s
    pairs = [("weights", "math")]
    if any(isinstance(part.module, MixtureOfExperts) for part in model.parts):
        pairs.append(("experts", "expert_math"))
    for kept, done in pairs:
        stored, math = getattr(precision, kept), getattr(precision, done)
        dtype = DTYPE_OF.get(stored) if isinstance(stored, str) else None
        if dtype in peaks and isinstance(math, str) and math != dtype:
            yield f"{kept} in {stored} are multiplied in {math}: {done}={dtype} takes them as they are"
    wanted = {precision.math, precision.expert_math, precision.attention_math}
    for dtype in sorted(one for one in wanted if isinstance(one, str) and one not in peaks):
        yield f"the card has no peak for {dtype}: its arithmetic is that of the next wider dtype"


def _uneven(model: Model, layout: Layout) -> Iterator[str]:
    """Yield what a layout does not divide: its floor holds, and no engine may start with it."""
    heads, experts = set[int](), set[int]()
    for part in model.parts:
        module = part.module
        if isinstance(module, Attention | LatentAttention | CompressedAttention):
            heads.add(module.heads)
        elif isinstance(module, MixtureOfExperts):
            experts.add(module.experts)
    if odd := sorted(count for count in heads if count % layout.tp):
        yield f"tp{layout.tp} does not divide {_and(odd)} heads, engines refuse that: taken as even"
    if odd := sorted(count for count in experts if count % layout.ep):
        yield f"ep{layout.ep} does not divide {_and(odd)} experts: engines need copies of some"
    if layout.pp > 1:
        yield _stages(model.parts, layout.pp)


def _stages(parts: Sequence[Part], stages: int) -> str:
    """Return that stages are taken as equal: whoever serves the model may share its layers out at will."""
    told = "stages are taken as equal, embedding and head spread over all of them"
    counts = {part.count for part in parts if not isinstance(part.module, OUTSIDE)}
    if odd := sorted(count for count in counts if count % stages):
        return f"{told}; pp{stages} does not divide {_and(odd)} layers of one kind"
    return told


def _and(counts: list[int]) -> str:
    return " and ".join(map(str, counts))
