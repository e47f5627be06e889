"""What no measurement of a block can exceed, whatever the candidate did. Pure.

A number beyond a ceiling says that the measurement is broken or was tampered with, never that the
candidate is that good: it is refused with what was seen and what the limit is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

CPU_TICK_S = 0.03  # the kernel counts CPU time in ticks of 10 ms; a few processes round each
CPU_SLACK = 1.1  # the CPU clocks are read a little before and after the block
GENERATOR_FACTOR = 3.0  # the same requests cost the generator the same CPU, on any arm
FLOOR_WARNING = 10.0


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What this machine can do, measured once in a session."""

    copy_bytes_per_s: float  # memory to memory, one core, read and written bytes counted once
    link_bytes_per_s: float  # through a local socket
    cores: int
    # Of one request, by resource of all cores: "memory", "arithmetic", as the manifest's floor says.
    needs_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts:
    """One block, as far as ceilings go. Bytes are of requests and responses together."""

    completed: int
    wall_s: float
    message_bytes: int
    server_cpu_s: float
    generator_cpu_s: float
    fastest_s: float  # send to answer of the fastest request


@dataclass(frozen=True, slots=True)
class Above:
    """A broken ceiling, in its own unit."""

    what: str
    seen: float
    limit: float

    def __str__(self) -> str:
        """Return one line for the evidence."""
        return f"{self.what}: {self.seen:.4g}, and no more than {self.limit:.4g} is possible"


def floor_s(facts: Facts, ceilings: Ceilings) -> float:
    """Return the least time of one request: its bytes, copied once."""
    return facts.message_bytes / max(1, facts.completed) / ceilings.copy_bytes_per_s


def above(facts: Facts, ceilings: Ceilings, other: Facts | None = None) -> Above | None:
    """Return the first ceiling that a block exceeds, None for a possible one.

    `other` is a block over the same requests on the other arm: the generator cannot have sent and
    spooled them for a fraction of the CPU.
    """
    if facts.completed == 0 or facts.wall_s <= 0:
        return None
    return next(_broken(facts, ceilings, other), None)


def _broken(facts: Facts, ceilings: Ceilings, other: Facts | None) -> Iterator[Above]:
    """Yield every broken ceiling."""
    bytes_per_s = facts.message_bytes / facts.wall_s
    if bytes_per_s > ceilings.link_bytes_per_s:
        yield Above("bytes a second through the socket", bytes_per_s, ceilings.link_bytes_per_s)
    least_s = max(ceilings.needs_s.values(), default=0.0)
    if facts.wall_s < facts.completed * least_s:
        rate = facts.completed / facts.wall_s
        yield Above("completions a second, by the manifest's floor", rate, 1 / least_s)
    allowed_cpu_s = ceilings.cores * facts.wall_s * CPU_SLACK + CPU_TICK_S
    if facts.server_cpu_s > allowed_cpu_s:
        yield Above("CPU seconds of the server", facts.server_cpu_s, allowed_cpu_s)
    needed_s = facts.message_bytes / ceilings.copy_bytes_per_s
    if facts.server_cpu_s + CPU_TICK_S < needed_s:
        yield _rate(facts, facts.server_cpu_s + CPU_TICK_S, needed_s, "server")
    if other is not None and other.completed:
        alike_s = other.generator_cpu_s / other.completed * facts.completed / GENERATOR_FACTOR
        if facts.generator_cpu_s + CPU_TICK_S < alike_s:
            yield _rate(facts, facts.generator_cpu_s + CPU_TICK_S, alike_s, "generator")
    moving_s = floor_s(facts, ceilings)
    if facts.fastest_s < moving_s:
        # A rate reads better than a time below a floor: more is impossible, in every line alike.
        rate = 1 / max(facts.fastest_s, 1e-9)
        yield Above("answers a second of the fastest request", rate, 1 / moving_s)


def near_floor(facts: Facts, ceilings: Ceilings) -> str | None:
    """Return a warning where the fastest answer is more than ten times the byte floor."""
    least_s = floor_s(facts, ceilings)
    if facts.fastest_s <= FLOOR_WARNING * least_s or least_s <= 0:
        return None
    return (
        f"the fastest answer took {facts.fastest_s * 1e3:.3g} ms, {facts.fastest_s / least_s:.0f} "
        f"times what moving its bytes takes at least: the byte floor bounds little here"
    )


def _rate(facts: Facts, had_s: float, needed_s: float, who: str) -> Above:
    """Return a rate that the CPU time of `who` does not allow."""
    rate = facts.completed / facts.wall_s
    return Above(f"completions a second for the CPU of the {who}", rate, rate * had_s / needed_s)
