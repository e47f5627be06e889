"""How a model is spread over devices, and the collectives that each way implies.

`tp16`: every matrix over 16 devices. `ep16+dp`: experts over 16, attention replicated and requests shared out.
`tp8+dp2`, `tp8+ep16`, `tp8+pp2`: products of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from layers.floor.account import Account, Quantity
from layers.floor.hardware import SCALE_OUT, SCALE_UP, Hardware

_PART = re.compile(r"(tp|ep|dp|pp)(0*[1-9]\d{0,8})?", re.ASCII)
_MOST_DEVICES = 65_536


class LayoutError(ValueError):
    """A layout that cannot be read or does not divide."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The devices of one deployment: `tp * dp` of them a pipeline stage, `ep` of these for experts."""

    tp: int = 1  # each attention and dense matrix is split over these
    dp: int = 1  # groups with all of attention, each for its share of the requests
    ep: int = 1  # experts are shared out over these; within them, matrices are split over the rest
    pp: int = 1  # stages

    def __post_init__(self) -> None:
        """Raise LayoutError for what does not divide."""
        if min(self.tp, self.dp, self.ep, self.pp) < 1 or self.devices > _MOST_DEVICES:
            raise LayoutError(f"{self}: each part is at least 1, all at most {_MOST_DEVICES}")
        if self.per_stage % self.ep:
            raise LayoutError(f"{self}: ep{self.ep} does not divide {self.per_stage} devices")

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Return the layout that `tp8+ep16+dp2+pp1` names; a bare `dp` takes what ep leaves.

        Raises LayoutError with the part that is wrong.
        """
        found: dict[str, int | None] = {}
        for part in text.lower().split("+"):
            match = _PART.fullmatch(part.strip())
            if match is None or match[1] in found or (match[2] is None and match[1] != "dp"):
                raise LayoutError(
                    f"{part.strip()[:40]!r} in {text[:80]!r}: not tpN, epN, dpN or ppN, each once"
                )
            found[match[1]] = int(match[2]) if match[2] else None
        tp, ep, pp = (found.get(name) or 1 for name in ("tp", "ep", "pp"))
        dp = found.get("dp", 1) or max(1, ep // tp)
        if "dp" not in found and ep > tp:
            raise LayoutError(f"{text[:80]!r}: ep{ep} is more than tp{tp}: add dp, or raise tp")
        return cls(tp, dp, ep, pp)

    @property
    def per_stage(self) -> int:
        """Devices of one pipeline stage."""
        return self.tp * self.dp

    @property
    def devices(self) -> int:
        """All devices."""
        return self.per_stage * self.pp

    @property
    def expert_tp(self) -> int:
        """Devices that one expert's matrices are split over."""
        return self.per_stage // self.ep

    def __str__(self) -> str:
        """Return what `parse` reads."""
        parts = [
            f"{name}{n}"
            for name, n in (("tp", self.tp), ("ep", self.ep), ("dp", self.dp), ("pp", self.pp))
            if n > 1
        ]
        return "+".join(parts) or "tp1"


def all_reduce(size_bytes: Quantity, devices: int, hardware: Hardware) -> Account:
    """Return what an all-reduce asks of each device's links.

    Within a node first, then each device its part across nodes. Where devices add, each sends what
    it does not add itself, (n - 1) / n of all, and its sums to all others: twice that on one link.
    Where the switch adds, each sends its own values once and gets the sums once.
    """
    within, nodes = _spread(devices, hardware)
    return _links(
        hardware,
        (SCALE_UP, _sent(size_bytes, within, hardware, SCALE_UP)),
        (SCALE_OUT, _sent(size_bytes / within, nodes, hardware, SCALE_OUT)),
        used=(within > 1, nodes > 1),
    )


def exchange(size_bytes: Quantity, devices: int, hardware: Hardware) -> Account:
    """Return what an all-to-all asks of each device's links that sends `size_bytes` evenly to all."""
    within, nodes = _spread(devices, hardware)
    here = size_bytes * (within - 1) / devices
    away = size_bytes * (devices - within) / devices
    return _links(hardware, (SCALE_UP, here), (SCALE_OUT, away), used=(within > 1, nodes > 1))


@dataclass(frozen=True, slots=True)
class Reach:
    """Which share of the tokens has an expert on one device, and which on one node."""

    device: float
    node: float


def reach(layout: Layout, hardware: Hardware, top_k: int, skew: float = 1.0) -> Reach:
    """Return the shares where each token picks `top_k` experts evenly; the busiest place has `skew` times them.

    Experts lie on `ep` places, and each node has its part of these, as they come.
    """
    _, nodes = _spread(layout.per_stage, hardware)
    places = (layout.ep, min(nodes, layout.ep))
    return Reach(*(min(1.0, skew * (1 - (1 - 1 / n) ** top_k)) for n in places))


def to_experts(
    size_bytes: Quantity, shares: Reach, layout: Layout, hardware: Hardware, *, held: bool
) -> Account:
    """Return what one way asks of each device's links: a group's tokens to their experts, or back.

    `held`: each device of a group has all of its tokens, and gets those of other groups that it has an expert for.
    Else each device has its share of them, and sends it. A token crosses to another node once and is passed on
    there: never more than a copy for each device, as which small batches may be sent for the latency.
    """
    within, nodes = _spread(layout.per_stage, hardware)
    if held:
        of_a_node = max(1.0, within / layout.tp)  # groups that a node has devices of
        here, size = of_a_node - 1, size_bytes
        away = (layout.dp - of_a_node) / within
    else:
        here, size = within - 1, size_bytes / layout.tp
        away = nodes - 1
    return _links(
        hardware,
        (SCALE_UP, size * here * shares.device),
        (SCALE_OUT, size * away * shares.node),
        used=(here > 0, away > 0),
    )


def hand_over(size_bytes: Quantity, layout: Layout, hardware: Hardware) -> Account:
    """Return what sending activations to the next pipeline stage asks of a device's link.

    The devices of a tensor-parallel group all have them: across nodes each sends a part, and the
    next node puts the parts together.
    """
    across = layout.per_stage >= hardware.devices_per_node
    part = size_bytes / min(layout.tp, hardware.devices_per_node)
    return _links(hardware, (SCALE_UP, size_bytes), (SCALE_OUT, part), used=(not across, across))


def _spread(devices: int, hardware: Hardware) -> tuple[int, int]:
    """Return how many devices share a node, and over how many nodes they lie."""
    within = min(devices, hardware.devices_per_node)
    return within, -(-devices // within)


def _sent(size_bytes: Quantity, parties: int, hardware: Hardware, link: str) -> Quantity:
    ties = hardware.links.get(link)
    if ties is not None and ties.reduces:
        return size_bytes
    return 2 * size_bytes * (parties - 1) / parties


def _links(hardware: Hardware, *asked: tuple[str, Quantity], used: tuple[bool, bool]) -> Account:
    taken = [(name, size) for (name, size), is_used in zip(asked, used, strict=True) if is_used]
    for name, _ in taken:
        if name not in hardware.links:
            raise LayoutError(f"{hardware.name} has no {name} link: its card must name one")
    return Account(net_bytes=dict(taken), net_messages={name: 1.0 for name, _ in taken})
