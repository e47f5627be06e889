"""What an arm did besides answering: failed requests, work while idle, CPUs that are not its own.

Pure. The machine is shared by both arms: what one does while the other is measured slows that one
down, and must never read as a gain of the first. Nor may an arm choose which of its blocks count:
what was dropped is judged by arm, over a whole trial.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, median, stdev
from typing import Literal, TypeAlias

from scipy import stats

from layers.evidence import Block, GateResult, LoadTest, Pair, VoidPair
from layers.measure.ceilings import CPU_TICK_S
from layers.measure.checks import ENVIRONMENT, VoidReason
from layers.measure.intervals import commit_gate

Arm: TypeAlias = Literal["baseline", "candidate"]
Blocks: TypeAlias = Mapping[Arm, Block]  # of both arms, over the same requests

# Cores beyond what the baseline uses while the candidate is loaded. An idle server uses some 0.05 % of one.
IDLE_CORES = 0.02  # by medians: a single disturbed block says nothing
BURST_CORES = 0.04  # by means: work that comes in few blocks, but then at length
LEAST_IDLE_BLOCKS = 2  # of each arm
CPUS_SLACK = 1.05  # CPU clocks and wall clock are not read at one instant
# Beyond what the other arm of the pair waited for memory. A fault takes 0.1 to 1 ms.
FAULTS_PER_S = 50.0
STALLED = 0.02  # share of the time
SURE = 0.001  # of saying of an honest trial that its machine took sides
LEAST_PAIRS = 6


@dataclass(frozen=True, slots=True)
class Fault:
    """What an arm is to blame for; `reason` is a verdict's code, `detail` goes after its name."""

    arm: Arm
    reason: str
    detail: str


def void_arms(blocks: Blocks) -> dict[Arm, str]:
    """Return the arms whose block decides nothing, each with the reason.

    Beside what a block says of itself: one that waited for memory far longer than the other. A stack
    that always waits (a table that is mapped from a disk) does so in both.
    """
    void: dict[Arm, str] = {arm: block.void for arm, block in blocks.items() if block.void}
    for arm, block in blocks.items():
        other = blocks["candidate" if arm == "baseline" else "baseline"]
        faults_per_s = (block.faults_per_s or 0.0) - (other.faults_per_s or 0.0)
        stalled = (block.memory_stalled or 0.0) - (other.memory_stalled or 0.0)
        if faults_per_s > FAULTS_PER_S or stalled > STALLED:
            void.setdefault(arm, VoidReason.MEMORY_PRESSURE.value)
    return void


def dropped(blocks: Blocks, void: Mapping[Arm, str]) -> VoidPair:
    """Return a void pair as evidence, with what it would have said."""
    old, new = blocks["baseline"], blocks["candidate"]
    work = old.measure == "work"
    return VoidPair(
        launch=old.launch,
        pair=old.pair,
        measure=old.measure,
        arms=sorted(void),
        reason=next(iter(void.values())),
        throughput_ratio=new.rate / old.rate if work and old.rate > 0 else None,
        requests=old.requests,
        over_slo_in_time=None if work else (old.over_slo_in_time or 0, new.over_slo_in_time or 0),
    )


def voids_one_sided(voids: Sequence[VoidPair], test: LoadTest | None) -> str | None:
    """Say why the machine may not be what voided these pairs of a trial, None where it may.

    One block of the candidate's void more often than one of the baseline's, surely; or segments that
    only late sends voided, and that would fail the commit gate: answers that come all at once after
    a stall delay sends, and the segment with the stall would be dropped for it. Counted is what was
    slow before any send was late.
    """
    old, new = (sum(void.arms == [arm] for void in voids) for arm in ("baseline", "candidate"))
    if stats.binom.sf(new - 1, old + new, 0.5) < SURE:
        return f"only the candidate's block was void {new} times, only the baseline's {old} times"
    late = [void.over_slo_in_time for void in voids if void.reason == VoidReason.LATE_SENDS]
    slow = [both for both in late if both is not None]
    if test is None or not slow:
        return None
    requests = sum(void.requests for void in voids if void.reason == VoidReason.LATE_SENDS)
    arms = (
        test.baseline.over_slo + sum(both[0] for both in slow),
        test.baseline.requests + requests,
        test.candidate.over_slo + sum(both[1] for both in slow),
        test.candidate.requests + requests,
    )
    _, _, result, _ = commit_gate(*arms)
    if result is not GateResult.FAIL:
        return None
    return (
        f"with the {len(slow)} segments that late sends voided, {arms[2]} of {arms[3]} requests of "
        f"the candidate are over the SLO, and {arms[0]} of the baseline's"
    )


def neighbours_one_sided(pairs: Sequence[Blocks]) -> str | None:
    """Say that others used the machine more while the baseline was measured, where that is sure.

    Over a trial's pairs of work blocks: few of them differ by chance on a machine that others use.
    """
    differences = [
        blocks["baseline"].neighbour_cpu - blocks["candidate"].neighbour_cpu for blocks in pairs
    ]
    count = len(differences)
    if count < LEAST_PAIRS:
        return None
    mean = fmean(differences)
    surely = mean - float(stats.t.isf(SURE, count - 1)) * stdev(differences) / sqrt(count)
    if surely <= IDLE_CORES:
        return None
    return (
        f"neither arm used {mean:.3f} cores more while the baseline was measured than while the "
        f"candidate was, over {count} pairs: who did is not known"
    )


def failed(blocks: Blocks) -> Fault | None:
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


def ratios(blocks: Blocks) -> Pair:
    """Return candidate-over-baseline throughput and baseline-over-candidate CPU per request."""
    base, cand = blocks["baseline"], blocks["candidate"]
    cpu = {arm: sum(block.cpu_s.values()) / block.completed for arm, block in blocks.items()}
    return Pair(
        launch=base.launch,
        pair=base.pair,
        throughput_ratio=cand.rate / base.rate,
        cpu_ratio=cpu["baseline"] / cpu["candidate"],
    )
