"""Two-sided floors: the least time of a step if everything overlaps, and if nothing does.

t_opt = max(t_hbm, t_compute, t_network), t_sum = their sum (Floor-First Triage, 2026, section 3). Links overlap, too:
t_opt takes the busiest of them, t_sum all of them one after another. Below t_opt nothing can be: account, constant or
measurement is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from layers.floor.account import Account, Quantity, greatest
from layers.floor.hardware import Hardware
from layers.floor.model import Model
from layers.floor.modules import Place, Step

RESOURCES = ("hbm", "compute", "network")


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds that each resource is busy for."""

    hbm_s: Quantity
    compute_s: Quantity
    network_s: Quantity  # all links, one after another
    link_s: Quantity | None = None  # the busiest link (None: there is one at most)

    @property
    def apart_s(self) -> dict[str, Quantity]:
        """How long each takes if all overlap, the network as its busiest link."""
        link = self.network_s if self.link_s is None else self.link_s
        return dict(zip(RESOURCES, (self.hbm_s, self.compute_s, link), strict=True))

    @property
    def t_opt_s(self) -> Quantity:
        """The floor if all overlap."""
        return greatest(*self.apart_s.values())

    @property
    def t_sum_s(self) -> Quantity:
        """The floor if none does."""
        return self.hbm_s + self.compute_s + self.network_s

    @property
    def binding(self) -> str:
        """The resource that takes longest; of floats only."""
        return max(self.apart_s, key=lambda name: float(self.apart_s[name]))


@dataclass(frozen=True, slots=True)
class Floor:
    """The floor of one step of a model in one place, whole and by part."""

    step: Step
    place: Place
    whole: Account
    parts: Mapping[str, Account]

    @property
    def times(self) -> Times:
        """Seconds of the whole step."""
        return times(self.whole, self.place.hardware)

    @property
    def most_sequences(self) -> Quantity:
        """Sequences, as long as the step leaves them, that all devices have room for; below 0: not for the weights."""
        return capacity(self.whole, self.step.after, self.place)


def floor(model: Model, step: Step, place: Place, *, drafts: int = 0) -> Floor:
    """Return the floor of one step, after `drafts` passes of the model's draft layers.

    Raises KeyError for a dtype, LayoutError for a link that the card lacks.
    """
    parts = dict(model.accounts(step, place))
    if drafts:
        parts |= model.draft_accounts(Step(step.batch, step.context), place)
        passes = {part.name for part in model.draft}
        parts = {n: again(a, drafts) if n in passes else a for n, a in parts.items()}
    return Floor(step, place, total(parts.values()), parts)


def total(accounts: Iterable[Account]) -> Account:
    """Return the sum within each resource."""
    found = Account()
    for account in accounts:
        found = found + account
    return found


def again(account: Account, times: int) -> Account:
    """Return what so many passes of the same layers ask for: what they keep they keep once."""
    return replace(
        account.times(times),
        resident_bytes=account.resident_bytes,
        cache_bytes_per_token=account.cache_bytes_per_token,
        state_bytes_per_sequence=account.state_bytes_per_sequence,
    )


def times(account: Account, hardware: Hardware) -> Times:
    """Return how long each resource of a device is busy."""
    compute = sum(flops / hardware.peak(dtype) for dtype, flops in account.flops.items())
    busy = links_s(account, hardware).values()
    hbm = account.hbm_bytes / hardware.hbm_bytes_per_s
    return Times(hbm, compute, sum(busy, 0.0), greatest(0.0, *busy))


def links_s(account: Account, hardware: Hardware) -> dict[str, Quantity]:
    """Return how long each link of a device is busy: its bytes, and its messages one after another."""
    found: dict[str, Quantity] = {}
    for name, size in account.net_bytes.items():
        link = hardware.links[name]
        messages = account.net_messages.get(name, 0.0)
        found[name] = size / link.bytes_per_s + messages * link.latency_s
    return found


def capacity(account: Account, context: Quantity, place: Place) -> Quantity:
    """Return how many sequences fit into the memory that weights and reserve leave."""
    hardware = place.hardware
    room = hardware.memory_bytes - hardware.reserve_bytes - account.resident_bytes
    each = context * account.cache_bytes_per_token + account.state_bytes_per_sequence
    return place.layout.dp * room / each


def overlap_quality(measured_s: float, found: Times) -> float | None:
    """Return 1 where a measurement lies at t_opt, 0 at t_sum; None where the two are one."""
    opt, together = float(found.t_opt_s), float(found.t_sum_s)
    if together - opt <= 1e-9 * together:
        return None
    return (together - measured_s) / (together - opt)


def utilisation(account: Account, hardware: Hardware, measured_s: float) -> tuple[float, float]:
    """Return MFU and MBU of a measured step; their ratio is intensity over ridge, whatever the time."""
    found = times(account, hardware)
    return float(found.compute_s) / measured_s, float(found.hbm_s) / measured_s
