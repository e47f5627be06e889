"""What an answer leaves open: by the model's configuration, by the card, and by the layout."""

from __future__ import annotations

from collections.abc import Iterator

from layers.floor.layout import Layout
from layers.floor.model import Model
from layers.floor.modules import (
    Attention,
    CompressedAttention,
    LatentAttention,
    MixtureOfExperts,
    Place,
)


def assumptions(model: Model, place: Place) -> list[str]:
    """Return what a configuration, a card and a layout leave open, and what was taken."""
    told = list(model.assumptions)
    if place.layout.devices > 1 and not any(k.latency_s for k in place.hardware.links.values()):
        told.append("the card states no latency: messages take no time")
    if not place.hardware.reserve_bytes:
        told.append("the card states no reserve: weights and cache may fill the memory")
    return [*told, *_uneven(model, place.layout)]


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


def _and(counts: list[int]) -> str:
    return " and ".join(map(str, counts))
