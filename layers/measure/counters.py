"""What the server itself counted while a pair was measured: did the models run? Pure.

Both arms answer the same requests, so each model of the baseline has to have run on as many rows
in the candidate. A response cache and an ensemble that skips a model both show here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from layers.triton.client import ModelCounts

Counts = Mapping[str, ModelCounts]


@dataclass(frozen=True, slots=True)
class NotRun:
    """A model that did not run on what was answered; `reason` is a verdict's code."""

    reason: str
    detail: str


def difference(before: Counts, after: Counts) -> dict[str, ModelCounts]:
    """Return what each model did between two readings of its counts."""
    zero = ModelCounts(*(0 for _ in fields(ModelCounts)))
    return {
        name: ModelCounts(
            *(
                getattr(counts, field.name) - getattr(before.get(name, zero), field.name)
                for field in fields(ModelCounts)
            )
        )
        for name, counts in after.items()
    }


def not_run(baseline: Counts, candidate: Counts) -> NotRun | None:
    """Say where the candidate answered without running a model that the baseline ran.

    Reasons: served_from_cache (more answers of the server's cache than in the baseline),
    model_did_not_run (fewer rows inferred). A model that the candidate adds is its own affair.
    """
    for name, new in sorted(candidate.items()):
        hits = baseline[name].cache_hits if name in baseline else 0
        if new.cache_hits > hits:
            detail = f"{name}: {new.cache_hits} answers came from the server's cache, {hits} before"
            return NotRun("served_from_cache", detail)
    for name, old in sorted(baseline.items()):
        rows = candidate[name].inferences if name in candidate else 0
        if rows < old.inferences:
            detail = f"{name} ran on {rows} rows where the baseline's ran on {old.inferences}"
            return NotRun("model_did_not_run", detail)
    return None
