"""The resource account: what one step asks of one device, in five dimensions.

HBM bytes, FLOPs by dtype, network bytes by link, network messages by link, and capacity (resident weights, cache
per token, state per sequence). Floor-First Triage (2026), section 3: sum within a resource, maximise across them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Quantity: TypeAlias = Any  # a float, or an array of floats: nothing here asks which


def greatest(first: Quantity, *others: Quantity) -> Quantity:
    """Return the largest, element by element."""
    for other in others:
        first = (first + other + abs(first - other)) / 2
    return first


def least(first: Quantity, *others: Quantity) -> Quantity:
    """Return the smallest, element by element."""
    for other in others:
        first = (first + other - abs(first - other)) / 2
    return first


@dataclass(frozen=True, slots=True)
class Account:
    """What one step asks of the busiest device; empty asks for nothing."""

    hbm_bytes: Quantity = 0.0
    flops: Mapping[str, Quantity] = field(default_factory=dict)  # by dtype of the arithmetic
    net_bytes: Mapping[str, Quantity] = field(default_factory=dict)  # by link, one direction
    net_messages: Mapping[str, Quantity] = field(default_factory=dict)  # by link, one after another
    resident_bytes: Quantity = 0.0  # weights
    cache_bytes_per_token: Quantity = 0.0  # of one sequence
    state_bytes_per_sequence: Quantity = 0.0  # however long it is
    sequence_bytes: Quantity = 0.0  # of the HBM bytes, those of caches and states, not of weights

    def __add__(self, other: Account) -> Account:
        """Return both, one after the other on the same device."""
        return Account(
            self.hbm_bytes + other.hbm_bytes,
            _sum(self.flops, other.flops),
            _sum(self.net_bytes, other.net_bytes),
            _sum(self.net_messages, other.net_messages),
            self.resident_bytes + other.resident_bytes,
            self.cache_bytes_per_token + other.cache_bytes_per_token,
            self.state_bytes_per_sequence + other.state_bytes_per_sequence,
            self.sequence_bytes + other.sequence_bytes,
        )

    def times(self, factor: Quantity) -> Account:
        """Return the same, `factor` times: equal layers."""
        return Account(
            self.hbm_bytes * factor,
            {key: value * factor for key, value in self.flops.items()},
            {key: value * factor for key, value in self.net_bytes.items()},
            {key: value * factor for key, value in self.net_messages.items()},
            self.resident_bytes * factor,
            self.cache_bytes_per_token * factor,
            self.state_bytes_per_sequence * factor,
            self.sequence_bytes * factor,
        )


def _sum(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> dict[str, Quantity]:
    return {key: one.get(key, 0.0) + other.get(key, 0.0) for key in {**one, **other}}


def lesser_traffic(one: Account, other: Account) -> Account:
    """Return what each link carries at least, whichever of two ways is taken; nothing but the network counts."""
    return Account(
        net_bytes=_least(one.net_bytes, other.net_bytes),
        net_messages=_least(one.net_messages, other.net_messages),
    )


def _least(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> dict[str, Quantity]:
    return {key: least(one.get(key, 0.0), other.get(key, 0.0)) for key in {**one, **other}}
