"""Which resource binds first as load grows, where layouts cross, and what each yields at best.

Load is the number of sequences that decode at once over all devices. The terms of a step are weight reads
and cache reads (together the HBM time), compute and network; memory holds so many sequences and no more.
A resource's wall is the least load at which it sets t_opt (Floor-First Triage, 2026, section 3: wall
ordering): for KV bandwidth, where cache reads also exceed weight reads.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from layers.floor.account import greatest, least
from layers.floor.floors import Floor, floor
from layers.floor.model import Model
from layers.floor.modules import Place, Step

CAPACITY, KV, WEIGHTS = "kv_capacity", "kv_bandwidth", "weight_bandwidth"
COMPUTE, NETWORK = "compute", "network"
RESOURCES = (CAPACITY, KV, WEIGHTS, COMPUTE, NETWORK)
METRICS = ("t_opt", "t_sum", "hbm")
MOST_SEQUENCES = 2**20  # no wall is looked for above
_STEPS = 16  # loads tried in each doubling
_TIE = 1e-6  # what differs less is equal


@dataclass(frozen=True, slots=True)
class Fleet:
    """One layout, as many times as it fits on the devices; replicas share the sequences evenly."""

    name: str
    model: Model
    place: Place
    context: float
    replicas: int = 1

    @property
    def devices(self) -> int:
        """All devices."""
        return self.replicas * self.place.layout.devices

    @property
    def capacity(self) -> float:
        """Sequences that all devices have room for, none if the weights do not fit."""
        return max(0.0, self.replicas * float(self.at(1).most_sequences))

    def at(self, sequences: float) -> Floor:
        """Return the floor of the busiest replica with so many sequences on all of them."""
        share = greatest(sequences / self.replicas, least(sequences, 1.0))
        return floor(self.model, Step(share, self.context), self.place)


@dataclass(frozen=True, slots=True)
class Wall:
    """The least load at which a resource binds."""

    resource: str
    sequences: float | None  # whole but for capacity; None: out of reach, however great the load
    within: bool  # the memory holds as many


@dataclass(frozen=True, slots=True)
class Walls:
    """All walls of one fleet in the order in which growing load meets them."""

    fleet: Fleet
    starts: str  # what binds a single sequence
    walls: Sequence[Wall]

    @property
    def first(self) -> str | None:
        """The wall that growing load meets first; None where there is none."""
        return next(
            (w.resource for w in self.walls if w.within and w.resource != self.starts), None
        )


@dataclass(frozen=True, slots=True)
class Crossover:
    """Where one fleet takes over from another, both having room for the load."""

    between: tuple[str, str]
    metric: str
    sequences: int  # the least with which `faster` is so
    faster: str


@dataclass(frozen=True, slots=True)
class Point:
    """What a fleet yields at one load, with no draft accepted."""

    name: str
    sequences: int
    user_per_s: float  # tokens of one sequence
    device_per_s: float  # tokens of all, shared out over the devices


def bound(found: Floor) -> str:
    """Return the resource that sets t_opt, HBM by the larger of weight reads and cache reads."""
    binding = found.times.binding
    if binding != "hbm":
        return binding
    return KV if 2 * found.whole.sequence_bytes > found.whole.hbm_bytes else WEIGHTS


def walls(fleet: Fleet) -> Walls:
    """Return every wall of a fleet. Raises KeyError, LayoutError as `floor` does."""
    room = fleet.capacity
    tried = [(load, bound(fleet.at(load))) for load in _loads(MOST_SEQUENCES)]
    found = [Wall(CAPACITY, room, within=True)]
    for resource in RESOURCES[1:]:
        least_load = _first(tried, resource, lambda load: bound(fleet.at(load)))
        within = least_load is not None and least_load <= room
        found.append(Wall(resource, least_load, within))
    never = float(2 * MOST_SEQUENCES)
    found.sort(key=lambda wall: never if wall.sequences is None else wall.sequences)
    return Walls(fleet, tried[0][1], tuple(found))


def crossovers(fleets: Sequence[Fleet]) -> list[Crossover]:
    """Return where fleets take over from one another, for loads that both have room for.

    Compared are device seconds of a step: with equal devices that is the step's time.
    """
    found: list[Crossover] = []
    for one, other in itertools.combinations(fleets, 2):
        most = int(min(one.capacity, other.capacity, MOST_SEQUENCES))
        for metric in METRICS:
            found += _crossings(one, other, metric, most)
    return found


def frontier(fleets: Sequence[Fleet], metric: str = "t_opt") -> list[Point]:
    """Return the points that no other beats in both rates, from the fastest for one user on."""
    points = sorted(
        (point for fleet in fleets for point in curve(fleet, metric)),
        key=lambda point: (-point.user_per_s, -point.device_per_s),
    )
    best: list[Point] = []
    for point in points:
        if not best or point.device_per_s > best[-1].device_per_s * (1 + _TIE):
            best.append(point)
    return best


def curve(fleet: Fleet, metric: str = "t_opt") -> list[Point]:
    """Return what a fleet yields at loads from one sequence to all that it has room for."""
    found = []
    for load in _loads(int(fleet.capacity)):
        seconds = step_s(fleet.at(load), metric)
        found.append(Point(fleet.name, load, 1 / seconds, load / seconds / fleet.devices))
    return found


def step_s(found: Floor, metric: str) -> float:
    """Return the seconds of a step by one of METRICS."""
    times = found.times
    return float({"t_opt": times.t_opt_s, "t_sum": times.t_sum_s, "hbm": times.hbm_s}[metric])


def _crossings(one: Fleet, other: Fleet, metric: str, most: int) -> Iterator[Crossover]:
    def leader(load: int) -> str | None:
        mine = step_s(one.at(load), metric) * one.devices
        its = step_s(other.at(load), metric) * other.devices
        if abs(mine - its) <= _TIE * its:
            return None
        return one.name if mine < its else other.name

    led = [(load, name) for load in _loads(most) if (name := leader(load))]
    for (low, before), (high, after) in itertools.pairwise(led):
        if before != after:
            load = _least(low, high, leader, after)
            yield Crossover((one.name, other.name), metric, load, after)


def _first(
    tried: Sequence[tuple[int, str]], resource: str, binding: Callable[[int], str]
) -> int | None:
    """Return the least load at which a resource binds, by bisection between those tried."""
    below = 0
    for load, found in tried:
        if found == resource:
            return _least(below, load, binding, resource)
        below = load
    return None


def _least(low: int, high: int, said: Callable[[int], str | None], what: str) -> int:
    """Return the least whole number in (low, high] of which `what` is said, as it is of `high`."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if said(middle) == what else (middle, high)
    return high


def _loads(most: int) -> list[int]:
    """Return the loads from 1 to `most` that are tried, evenly spread in each doubling; both ends."""
    doublings = most.bit_length()
    spread = {round(2 ** (step / _STEPS)) for step in range(_STEPS * doublings)}
    return sorted(load for load in spread | {most} if 1 <= load <= most)
