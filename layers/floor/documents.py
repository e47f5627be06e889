"""Floors and walls as data: what `fvec.floor/1` and `fvec.walls/1` say whoever prints them.

Times in seconds, sizes in bytes of the busiest device; `requests` are sequences on all devices together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from layers.floor.assumed import assumptions
from layers.floor.floors import Times, links_s
from layers.floor.model import Model
from layers.floor.sensitivity import Answer, Sensitivity
from layers.floor.triage import Decision, Service
from layers.floor.walls import Crossover, Fleet, Walls, bound


def floor_document(model: Model, answer: Answer, measured_s: float | None) -> dict[str, Any]:
    """Return a floor and the measurement held to it."""
    found = answer.floor
    whole, account, hardware = found.times, found.whole, found.place.hardware
    return {
        "schema": "fvec.floor/1",
        "model": model.name,
        "hardware": hardware.name,
        "layout": str(found.place.layout),
        "t_opt_s": whole.t_opt_s,
        "t_sum_s": whole.t_sum_s,
        "resources": busy(whole),
        "links": links_s(account, hardware),
        "binding": whole.binding,
        "bound": bound(found),
        "ridge": {dtype: hardware.ridge(dtype) for dtype in hardware.flops_per_s},
        "params": model.parameters(),
        "weights_bytes_per_gpu": account.resident_bytes,
        "kv_bytes_per_token": account.cache_bytes_per_token,
        "capacity_requests": max(0.0, float(found.most_sequences)),
        "assumptions": assumptions(model, found.place, found.step),
        "measured_s": measured_s,
        "decision": decision_document(answer.decision),
    }


def walls_document(found: Sequence[Walls], crossings: Sequence[Crossover]) -> dict[str, Any]:
    """Return the walls of each layout, and where layouts cross."""
    return {
        "schema": "fvec.walls/1",
        "assumptions": taken(walls.fleet for walls in found),
        "layouts": [
            {
                "name": walls.fleet.name,
                "replicas": walls.fleet.replicas,
                "starts": walls.starts,
                "walls": [
                    {"resource": w.resource, "requests": w.sequences, "within_capacity": w.within}
                    for w in walls.walls
                ],
                "first": walls.first,
            }
            for walls in found
        ],
        "crossovers": [
            {
                "between": list(c.between),
                "requests": c.sequences,
                "metric": c.metric,
                "faster": c.faster,
            }
            for c in crossings
        ],
    }


def busy(times: Times) -> dict[str, float]:
    """Return how long each resource is busy, the network with all links one after another."""
    return {"hbm_s": times.hbm_s, "compute_s": times.compute_s, "network_s": times.network_s}


def decision_document(decision: Decision | None) -> dict[str, Any] | None:
    """Return a decision and what it stands on."""
    if decision is None:
        return None
    return {
        "action": decision.action,
        "reason": decision.reason,
        "residual": decision.residual,
        "threshold": decision.limit.factor,
        "threshold_fixed_s": decision.limit.fixed_s,
        "threshold_source": decision.limit.source,
        "overlap_quality": decision.quality,
        "metric": decision.metric,
        "utilisation": decision.utilisation,
        "advice": list(decision.advice),
    }


def service_document(service: Service | None) -> dict[str, str] | None:
    """Return whether an SLO is kept, and why."""
    return {"verdict": service.verdict, "reason": service.reason} if service else None


def sensitivity_document(moves: Iterable[Sensitivity]) -> list[dict[str, Any]]:
    """Return for each uncertain input its range and the answers at both ends of it."""
    return [_moved(one) for one in moves]


def taken(fleets: Iterable[Fleet]) -> list[str]:
    """Return what all layouts leave open and what was taken, each once."""
    told = (line for fleet in fleets for line in assumptions(fleet.model, fleet.place))
    return list(dict.fromkeys(told))


def _moved(one: Sensitivity) -> dict[str, Any]:
    ends = (one.at_low.told(), one.at_high.told())
    answers = {name: [end[name] for end in ends] for name in ends[0]}
    span = {"input": one.name, "unit": one.unit, "range": [one.low, one.high]}
    return {**span, **answers, "flips": list(one.flips)}
