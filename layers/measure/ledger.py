"""What the launches of one trial took and dropped, besides what their pairs say. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from layers.evidence import ArmCosts, Costs, VoidPair
from layers.measure.conduct import Arm, Blocks
from layers.measure.intervals import Estimate
from layers.sandbox.base import MIB
from layers.sandbox.cgroups import Memory

ARMS: tuple[Arm, Arm] = ("baseline", "candidate")
MUCH = 1.25  # times what the baseline takes that a reviewer is told of
SLOWER_S, LARGER_MIB = 1.0, 64.0  # and by this much at least
NOT_HELD = (
    "the other arm was not held still while one was measured: that takes a control group "
    "(sandbox.mode strict)"
)


@dataclass(slots=True)
class Taken:
    """What one arm took in one launch."""

    ready_s: float
    begin: Memory | None  # before the load
    end: Memory | None = None


@dataclass(slots=True)
class Ledger:
    """Written by the launches of a trial, one after the other; read for its verdict and evidence."""

    voids: list[VoidPair] = field(default_factory=list)
    kept: list[Blocks] = field(default_factory=list)  # of every pair of work blocks that counted
    held: bool = True  # every block beside another arm of ours found that held still
    taken: dict[Arm, list[Taken]] = field(default_factory=lambda: {arm: [] for arm in ARMS})

    def began(self, arm: Arm, ready_s: float, memory: Memory | None) -> None:
        """Note an arm that is about to be loaded."""
        self.taken[arm].append(Taken(ready_s, memory))

    def ended(self, arm: Arm, memory: Memory | None) -> None:
        """Note what an arm holds after its load."""
        self.taken[arm][-1].end = memory

    def void_of(self, arm: Arm) -> int:
        """Return in how many dropped pairs an arm's block was void."""
        return sum(arm in void.arms for void in self.voids)

    def costs(self, cpu: Estimate | None = None) -> Costs | None:
        """Return what both arms took; None where none was loaded. `cpu` is of the whole arms."""
        if not all(self.taken.values()):
            return None
        return Costs(
            launches=len(self.taken["candidate"]),
            baseline=_median(self.taken["baseline"]),
            candidate=_median(self.taken["candidate"]),
            cpu_ratio=cpu.ratio if cpu else None,
            cpu_ci=cpu.ci if cpu else None,
        )

    def warnings(self) -> list[str]:
        """Return what a reviewer should know, one line each."""
        lines = [] if self.held else [NOT_HELD]
        found = self.costs()
        if found is None:
            return lines
        old, new = found.baseline, found.candidate
        if new.ready_s > max(MUCH * old.ready_s, old.ready_s + SLOWER_S):
            lines.append(f"it takes {new.ready_s:.1f} s to start, the baseline {old.ready_s:.1f} s")
        for what, before, after in (
            ("holds", old.memory_end_mib, new.memory_end_mib),
            ("held at most", old.memory_peak_mib, new.memory_peak_mib),
        ):
            if before is None or after is None:
                continue
            if after > max(MUCH * before, before + LARGER_MIB):
                lines.append(
                    f"it {what} {after:,.0f} MiB of memory, the baseline {before:,.0f} MiB"
                )
        return lines


def _median(taken: list[Taken]) -> ArmCosts:
    """Return the medians over the launches of one arm; None for what not every launch tells."""

    def mib(read: Callable[[Taken], int | None]) -> float | None:
        known = [size for one in taken if (size := read(one)) is not None]
        return median(known) / MIB if len(known) == len(taken) else None

    return ArmCosts(
        ready_s=median(one.ready_s for one in taken),
        memory_begin_mib=mib(lambda one: one.begin.held if one.begin else None),
        memory_end_mib=mib(lambda one: one.end.held if one.end else None),
        memory_peak_mib=mib(lambda one: one.end.peak if one.end else None),
    )
