"""What an arm did besides answering: failed requests, work while idle, CPUs that are not its own.

Pure. The machine is shared by both arms: what one does while the other is measured slows that one
down, and must never read as a gain of the first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal

from layers.evidence import Block, Pair
from layers.measure.ceilings import CPU_TICK_S
from layers.measure.checks import ENVIRONMENT

# Cores beyond what the baseline uses while the candidate is loaded. An idle server uses some 0.05 % of one.
IDLE_CORES = 0.02  # by medians: a single disturbed block says nothing
BURST_CORES = 0.04  # by means: work that comes in few blocks, but then at length
LEAST_IDLE_BLOCKS = 2  # of each arm
CPUS_SLACK = 1.05  # CPU clocks and wall clock are not read at one instant


@dataclass(frozen=True, slots=True)
class Fault:
    """What an arm is to blame for; `reason` is a verdict's code, `detail` goes after its name."""

    arm: Literal["baseline", "candidate"]
    reason: str
    detail: str


def failed(blocks: Mapping[Literal["baseline", "candidate"], Block]) -> Fault | None:
    """Return the first arm whose void block is its own fault, not the machine's."""
    for arm, block in sorted(blocks.items()):
        if block.void is None or block.void in ENVIRONMENT:
            continue
        told = f"{block.errors} of {block.requests} requests failed: {block.void}"
        return Fault(arm, f"{block.void}_under_load", f"broke under load: {told}")
    return None


def works_while_idle(blocks: Sequence[Block]) -> Fault | None:
    """Say whether the candidate works while the baseline is measured, over one launch's blocks.

    What the baseline does while the candidate is measured is what an idle server does here.
    """
    idle = {
        other: [b.idle_cpu for b in blocks if b.arm == arm and b.idle_cpu is not None]
        for arm, other in (("baseline", "candidate"), ("candidate", "baseline"))
    }
    if min(map(len, idle.values())) < LEAST_IDLE_BLOCKS:
        return None
    middle = median(idle["candidate"]) - median(idle["baseline"])
    mean = fmean(idle["candidate"]) - fmean(idle["baseline"])
    if middle <= IDLE_CORES and mean <= BURST_CORES:
        return None
    detail = (
        f"uses {max(middle, mean):.3f} cores more than the baseline while the other one is "
        f"measured, over {len(idle['candidate'])} blocks"
    )
    return Fault("candidate", "works_while_idle", detail)


def leaves_its_cpus(block: Block, cpus: Collection[int] | None) -> Fault | None:
    """Say whether an arm used more CPU in its own block than the CPUs that it is pinned to have."""
    if not cpus or block.server_cpu is None or block.wall_s <= 0:
        return None
    allowed = len(cpus) * CPUS_SLACK + CPU_TICK_S / block.wall_s
    if block.server_cpu <= allowed:
        return None
    detail = f"used {block.server_cpu:.2f} cores, pinned to CPUs {sorted(cpus)}"
    return Fault(block.arm, "leaves_its_cpus", detail)


def ratios(blocks: Mapping[Literal["baseline", "candidate"], Block]) -> Pair:
    """Return candidate-over-baseline throughput and baseline-over-candidate CPU per request."""
    base, cand = blocks["baseline"], blocks["candidate"]
    cpu = {arm: sum(block.cpu_s.values()) / block.completed for arm, block in blocks.items()}
    return Pair(
        launch=base.launch,
        pair=base.pair,
        throughput_ratio=cand.rate / base.rate,
        cpu_ratio=cpu["baseline"] / cpu["candidate"],
    )
