"""What one device can do at most, and what ties devices together. Every constant has its source in its card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SCALE_UP, SCALE_OUT = "scale_up", "scale_out"


@dataclass(frozen=True, slots=True)
class Link:
    """One device's share of a network, one direction."""

    bytes_per_s: float
    latency_s: float = 0.0  # of one message, sender to receiver
    reduces: bool = False  # the switch adds: an all-reduce sends each byte once


@dataclass(frozen=True, slots=True)
class Hardware:
    """One device, and the links to the others."""

    name: str
    memory_bytes: float
    hbm_bytes_per_s: float
    flops_per_s: Mapping[str, float]  # dense peak by dtype of the arithmetic
    links: Mapping[str, Link] = field(default_factory=dict)
    devices_per_node: int = 8
    cache_bytes: float = 0.0  # the last-level cache
    cache_bytes_per_s: float = 0.0  # 0: not known
    reserve_bytes: float = 0.0  # of the memory, that neither weights nor cache may have
    family: str = ""  # of devices that kernels are written for together, such as hopper

    def peak(self, dtype: str) -> float:
        """Return the dense peak for a dtype; KeyError, naming those known, where there is none."""
        try:
            return self.flops_per_s[dtype]
        except KeyError:
            known = ", ".join(sorted(self.flops_per_s))
            raise KeyError(f"{self.name} has no peak for {dtype}, only for {known}") from None

    def ridge(self, dtype: str) -> float:
        """Return the FLOPs per byte above which arithmetic binds and below which memory does."""
        return self.peak(dtype) / self.hbm_bytes_per_s
