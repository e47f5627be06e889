"""Floors and walls as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from layers.floor.assumed import assumptions
from layers.floor.documents import taken
from layers.floor.floors import links_s, times
from layers.floor.model import Model
from layers.floor.sensitivity import Answer, Sensitivity
from layers.floor.triage import Service, seconds
from layers.floor.walls import CAPACITY, Crossover, Walls, bound

NO_WEIGHTS = "the weights do not fit"
MORE_DEVICES = f"{NO_WEIGHTS}: more devices or formats of fewer bits make room"
MORE_ROOM = "a shorter context, more devices or formats of fewer bits make room"


def floor_lines(
    model: Model, answer: Answer, moves: Sequence[Sensitivity], service: Service | None
) -> Iterator[str]:
    """Yield what a person reads of a floor and of the measurement held to it."""
    found = answer.floor
    whole, account, place = found.times, found.whole, found.place
    yield f"{model.name} on {place.layout.devices} x {place.hardware.name} as {place.layout}"
    yield f"t_opt {seconds(whole.t_opt_s)}, t_sum {_t(whole.t_sum_s)}, bound by {bound(found)}"
    yield f"  HBM {_t(whole.hbm_s)}, compute {_t(whole.compute_s)}, network {_t(whole.network_s)}"
    if len(links := links_s(account, place.hardware)) > 1:
        yield f"  links overlap: {', '.join(f'{name} {_t(busy)}' for name, busy in links.items())}"
    for name, part in found.parts.items():
        busy = times(part, place.hardware)
        yield (
            f"  {name}: {_t(busy.t_opt_s)} (HBM {_t(busy.hbm_s)}, compute {_t(busy.compute_s)}, "
            f"network {_t(busy.network_s)})"
        )
    room, asked = max(0.0, float(found.most_sequences)), float(found.step.batch)
    yield f"weights {account.resident_bytes / 1e9:.4g} GB a device, room for {room:.4g} sequences"
    if room < asked:
        yield f"asked for {asked:.4g}: {MORE_ROOM if room else MORE_DEVICES}"
    for line in assumptions(model, place, found.step):
        yield f"assumed: {line}"
    yield from _decision_lines(answer)
    if service:
        yield f"SLO {service.verdict}: {service.reason}"
    for one in moves:
        if one.flips:
            span = f"{one.low:.4g} to {one.high:.4g} {one.unit}"
            yield f"not settled: {' and '.join(one.flips)} changes with {one.name}, {span}"


def _decision_lines(answer: Answer) -> Iterator[str]:
    decision = answer.decision
    if decision is None:
        return
    used = f"{decision.residual:.3g} times t_opt, {decision.metric} {decision.utilisation:.0%}"
    quality = "" if decision.quality is None else f", overlap quality {decision.quality:.2f}"
    yield f"measured: {used}{quality}"
    yield f"{decision.action}: {decision.reason}"
    for line in decision.advice:
        yield f"  - {line}"


def walls_lines(found: Sequence[Walls], crossings: Sequence[Crossover]) -> Iterator[str]:
    """Yield the walls of each layout in the order in which load meets them, and where layouts cross."""
    for walls in found:
        yield f"{walls.fleet.name}: starts bound by {walls.starts}"
        for wall in walls.walls:
            if wall.resource == CAPACITY:
                fit = f"{wall.sequences:.4g} sequences fit" if wall.sequences else NO_WEIGHTS
                yield f"  {wall.resource}: {fit}"
            elif wall.sequences is None:
                yield f"  {wall.resource}: out of reach"
            else:
                within = "" if wall.within else ", which memory does not hold"
                yield f"  {wall.resource}: from {wall.sequences:.4g} sequences{within}"
    for line in taken(walls.fleet for walls in found):
        yield f"assumed: {line}"
    for one in crossings:
        lost = next(name for name in one.between if name != one.faster)
        yield f"{one.faster} overtakes {lost} from {one.sequences} sequences on, by {one.metric}"


def _t(value: float) -> str:
    return seconds(value) if value else "0"
