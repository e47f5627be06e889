"""What a candidate does in launches besides answering its timed calls. Pure.

What could be a gain of somebody else's loss, or a cost that no timed call shows: work outside the
clock, other processes, memory that is kept, other sizes, a reference that is held up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from layers.callables.compare import gate
from layers.evidence import Gate, GateResult

# CPU of a call outside it, beyond the reference's: so much, and a share of the CPU inside. While
# arguments are taken in also a share of what that costs the reference, whose caches may hold them: a
# candidate need not read all of them. Whatever it is, `timing.hidden_s` charges it.
OUTSIDE_S, OUTSIDE_SHARE = 40e-6, 0.10
FETCH_FACTOR = 20.0  # what copying the same results out may cost: views are slow to copy
IDLE_S, IDLE_SHARE = 20e-6, 0.05
OTHERS_S, OTHERS_SHARE = 3e-3, 0.05  # CPU of other processes in a launch, beyond the reference's
COMPANY_SHARE = 0.1  # of calls after which more threads or processes are there
BIRTH_SHARE, BIRTHS_PLAIN = 0.2, 0.8  # of calls in which more start; in one launch alone
GROWTH_LEAST = 1 << 20  # bytes that a process may grow by in half a launch
GROWTH_CALL, GROWTH_SHARE = 32 << 10, 0.1  # bytes of a call, and share of its outputs
SLOWER, SLOWER_S = 1.25, 50e-6  # at another size: times the reference's time, and by how much
AGREEING = 2  # launches that must say the same
SLOWED, SLOWED_FLOORS = 0.03, 2.0  # that the reference may be slower beside a candidate; in floors
DISTURBED = 0.25  # in every launch, beyond which a gain says nothing, however large


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Times of both arms at another size than the timed one."""

    size: int
    tells: bool  # near enough that a gain at the timed size is none where this is slower
    baseline_s: float
    candidate_s: float

    @property
    def slower(self) -> bool:
        """Whether the candidate is clearly slower."""
        return self.candidate_s > SLOWER * self.baseline_s + SLOWER_S


@dataclass(slots=True)
class Outside:
    """What the candidate's process did in one launch, beyond the reference's on the same inputs."""

    inside_s: list[float] = field(default_factory=list)  # its CPU in every call; not beyond
    around_s: list[float] = field(default_factory=list)  # CPU while it took its arguments in
    taken_in_s: list[float] = field(default_factory=list)  # the reference's CPU for that
    fetch_s: list[float] = field(default_factory=list)  # of copying out, beyond what that can cost
    idle_s: list[float] = field(default_factory=list)  # CPU while the other one was called
    gaps_s: list[float] = field(default_factory=list)  # CPU between calls, by pair
    others_s: list[float] = field(default_factory=list)  # CPU of its other processes, by pair
    threads: list[int] = field(default_factory=list)  # after the calls
    processes: list[int] = field(default_factory=list)
    births: list[int] = field(default_factory=list)  # whether any process started in a call
    grown: list[float] = field(default_factory=list)  # bytes, by half of the launch
    half: int = 0  # calls of such a half
    output_bytes: int = 0  # of a call; not beyond
    sizes: list[Elsewhere] = field(default_factory=list)


def company_gate(launches: Sequence[Outside]) -> Gate:
    """Refuse work in other processes, and threads and processes that are there between calls."""
    others_s = float(np.sum(np.concatenate([launch.others_s for launch in launches])))
    inside_s = float(np.sum(np.concatenate([launch.inside_s for launch in launches])))
    detail = (
        f"{1e3 * others_s:.1f} ms of CPU in other processes, beyond the reference's; "
        f"{1e3 * inside_s:.1f} ms in its own"
    )
    if others_s > len(launches) * OTHERS_S + OTHERS_SHARE * inside_s:
        return gate("company", GateResult.FAIL, "starts_processes", detail)
    for reason, counts in (
        ("starts_processes", [launch.processes for launch in launches]),
        ("starts_threads", [launch.threads for launch in launches]),
    ):
        share = float(np.mean(np.concatenate(counts) > 0))
        if share > COMPANY_SHARE:
            return gate("company", GateResult.FAIL, reason, f"after {share:.0%} of timed calls")
    births = [float(np.mean(launch.births or 0)) for launch in launches]
    agreeing = sum(share > BIRTH_SHARE for share in births)
    if agreeing >= AGREEING or max(births) > BIRTHS_PLAIN:
        more = f"in {max(births):.0%} of timed calls, beyond the reference's, some start"
        return gate("company", GateResult.FAIL, "starts_processes", more)
    return gate("company", GateResult.PASS, "alone", detail)


def outside_gate(launches: Sequence[Outside]) -> Gate:
    """Refuse work that the clock of the calls did not see, over all launches so far.

    Every call is held against the reference's on the same inputs. What is three times the
    allowance fails at once; less must show in two launches.
    """
    around = np.concatenate([launch.around_s for launch in launches])
    fetch = np.concatenate([launch.fetch_s for launch in launches])
    idle_s = float(np.mean(np.concatenate([launch.idle_s for launch in launches])))
    gaps_s = float(np.sum(np.concatenate([launch.gaps_s for launch in launches]))) / len(around)
    inside_s = float(np.mean(np.concatenate([launch.inside_s for launch in launches])))
    usual_s, mean_s = float(np.median(around)), float(np.mean(around))
    detail = (
        f"{1e6 * usual_s:.0f} us (mean {1e6 * mean_s:.0f}) a call around it and "
        f"{1e6 * (idle_s + gaps_s):.0f} us while it was not called, beyond the reference's; "
        f"{1e6 * inside_s:.0f} us inside"
    )
    allowed_s = OUTSIDE_S + OUTSIDE_SHARE * inside_s
    taken_in = np.concatenate([launch.taken_in_s for launch in launches])
    around_allowed_s = allowed_s + OUTSIDE_SHARE * float(np.median(taken_in))
    excess = max(
        usual_s / around_allowed_s,
        mean_s / (2 * around_allowed_s),
        float(np.median(fetch)) / allowed_s,
        float(np.mean(fetch)) / (2 * allowed_s),
        (max(0.0, idle_s) + max(0.0, gaps_s)) / (IDLE_S + IDLE_SHARE * inside_s),
    )
    if excess > (1.0 if len(launches) >= AGREEING else 3.0):
        return gate("idle", GateResult.FAIL, "works_outside_the_call", detail)
    return gate("idle", GateResult.PASS, "idle_outside_the_call", detail)


def growth_gate(launches: Sequence[Outside]) -> Gate:
    """Refuse a process that keeps something of every call, where the reference's does not.

    It must grow in both halves of a launch, and in two launches: caches fill up, a leak does not.
    """
    growing = [launch for launch in launches if _grows(launch)]
    if len(growing) < AGREEING:
        return gate("growth", GateResult.PASS, "keeps_its_size")
    call = max(sum(launch.grown) / (2 * launch.half) for launch in growing)
    detail = f"{call / 1024:.0f} KiB with every call, in {len(growing)} of {len(launches)} launches"
    return gate("growth", GateResult.FAIL, "memory_grows", detail)


def _grows(launch: Outside) -> bool:
    """Whether the process grew with its calls in both halves of a launch."""
    a_call = max(float(GROWTH_CALL), GROWTH_SHARE * launch.output_bytes)
    least = max(float(GROWTH_LEAST), launch.half * a_call)
    return len(launch.grown) > 1 and all(grown > least for grown in launch.grown)


def sizes_gate(launches: Sequence[Outside]) -> Gate:
    """Refuse a gain at the timed size alone: clearly slower at sizes near it."""
    near = [one for launch in launches for one in launch.sizes if one.tells]
    slow = [one for one in near if one.slower]
    told = "; ".join(map(told_of_size, slow[:4]))
    if len(slow) >= AGREEING and 3 * len(slow) >= 2 * len(near):
        return gate("sizes", GateResult.FAIL, "slower", told)
    return gate("sizes", GateResult.PASS, "no_slower_beside", told or f"{len(near)} sizes beside")


def told_of_size(one: Elsewhere) -> str:
    """Return the times at another size, for people."""
    times = f"{1e6 * one.candidate_s:.0f} us a call, the reference {1e6 * one.baseline_s:.0f}"
    return f"slower at batch {one.size}: {times}"


def slowed(alone_s: float, beside_s: Sequence[float], floor: float) -> bool:
    """Whether the reference is slower beside the candidate than beside itself, beyond its noise.

    `alone_s` is its time of a call beside itself, `beside_s` that of each launch. Two must agree.
    """
    limit = 1 + max(SLOWED, SLOWED_FLOORS * floor)
    return sum(time_s > limit * alone_s for time_s in beside_s) >= AGREEING


def reference_gate(alone_s: float, beside_s: Sequence[float], ratio: float, floor: float) -> Gate:
    """Say whether a gain is the reference's loss: what holds it up makes the candidate look fast.

    Inconclusive where the reference is slower beside the candidate than beside itself, measured
    before and after, and either little is left of the gain without that or that is a lot.
    """
    excess = float(np.median(beside_s)) / alone_s
    detail = (
        f"a call of the reference takes {excess:.3f} times as long beside the candidate as "
        f"beside itself; the gain is {ratio:.3f} times"
    )
    left = np.log(ratio / max(1.0, excess)) > floor
    disturbed = min(beside_s) > (1 + DISTURBED) * alone_s
    if slowed(alone_s, beside_s, floor) and (disturbed or not left):
        return gate("reference", GateResult.INCONCLUSIVE, "reference_slowed", detail)
    return gate("reference", GateResult.PASS, "reference_undisturbed", detail)
