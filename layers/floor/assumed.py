"""What an answer leaves open: by the model's configuration, and by the card."""

from __future__ import annotations

from layers.floor.model import Model
from layers.floor.modules import Place


def assumptions(model: Model, place: Place) -> list[str]:
    """Return what a configuration and a card leave open, and what was taken."""
    told = list(model.assumptions)
    if place.layout.devices > 1 and not any(k.latency_s for k in place.hardware.links.values()):
        told.append("the card states no latency: messages take no time")
    if not place.hardware.reserve_bytes:
        told.append("the card states no reserve: weights and cache may fill the memory")
    return told
