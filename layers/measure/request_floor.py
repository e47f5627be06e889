"""The floor of a served stack: the least time of one request on this machine, before any profiler. Pure.

Floor-First Triage (2026) for a stack of any models: what a request needs whatever the implementation, as time
of three resources (the link, the memory, the arithmetic). t_opt is the longest, t_sum their sum. The measured
time of a request is that of the work measure, the inverse of completions per second at fixed in-flight load:
all cores work in it, so every constant is that of all cores.
"""

from __future__ import annotations

from layers.evidence import FloorRecord
from layers.floor.floors import Times
from layers.floor.triage import seconds
from layers.measure.ceilings import Ceilings

NAMES = {"hbm": "memory", "compute": "arithmetic", "network": "link"}


def times(message_bytes: float, ceilings: Ceilings) -> Times:
    """Return how long one request, of so many bytes with its answer, keeps each resource busy."""
    return Times(
        hbm_s=ceilings.needs_s.get("memory", 0.0),
        compute_s=ceilings.needs_s.get("arithmetic", 0.0),
        network_s=message_bytes / (ceilings.link_bytes_per_s * ceilings.cores),
    )


def triage(found: Times, measured_s: float, stop_at: float, *, declared: bool) -> FloorRecord:
    """Return where a measured request lies, and what to do: profile, stop, or doubt the numbers.

    `declared` says that the manifest names what a request needs; messages alone bound little.
    """
    opt, together = float(found.t_opt_s), float(found.t_sum_s)
    ratio = measured_s / opt
    times_it = f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"
    took = f"a request takes {seconds(measured_s)}, {times_it} times its floor of {seconds(opt)}"
    binding = NAMES[found.binding]
    if ratio < 1:
        action, reason = "suspect", f"{took}: nothing is faster than its floor"
    elif ratio < stop_at:
        near = (
            f"under {stop_at:g} times the {binding}'s time, only another model or less data helps"
        )
        action, reason = "stop", f"{took}: {near}"
    else:
        action, reason = "profile", f"{took}: {_residual(measured_s, together)}"
        if not declared:
            reason += "; messages alone are in that floor, the floor of the manifest can say more"
    return FloorRecord(
        t_opt_s=opt,
        t_sum_s=together,
        resources={name: float(busy) for name, busy in _busy(found).items() if float(busy)},
        binding=binding,
        measured_s=measured_s,
        ratio=ratio,
        declared=declared,
        action=action,
        reason=reason,
    )


def _residual(measured_s: float, together_s: float) -> str:
    if measured_s <= together_s:
        return f"within the {seconds(together_s)} that all resources take one after another"
    return f"no resource accounts for {seconds(measured_s - together_s)} of it"


def _busy(found: Times) -> dict[str, float]:
    return {"memory": found.hbm_s, "arithmetic": found.compute_s, "link": found.network_s}
