"""What one iteration taught about its card. Pure: the ground it stands on is passed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge.cards import Finding

if TYPE_CHECKING:
    from layers.base import Ground
    from layers.evidence import Interval, Iteration


def finding(iteration: Iteration, ground: Ground) -> Finding:
    """Return the finding of one iteration, for the card that it tried.

    The gain is the end-to-end throughput ratio of fresh pairs where there is one, else the
    estimate of the last look (which a reader must take with the verdict), else None.
    """
    gain, interval = _gain(iteration)
    return Finding(
        date=ground.date,
        stack=ground.stack,
        commit=iteration.base_commit or ground.commit,
        model=iteration.hypothesis.model,
        verdict=iteration.verdict.value,
        reason=iteration.reason,
        gain=gain,
        ci=interval,
        share=iteration.hypothesis.share,
        hardware=ground.hardware,
        versions=dict(ground.versions),
        workload=ground.workload,
        on_top=list(iteration.hypothesis.on_top),
        together=list(iteration.hypothesis.together),
        run=ground.run,
    )


def _gain(iteration: Iteration) -> tuple[float | None, Interval | None]:
    if iteration.end_to_end is not None:
        return iteration.end_to_end.throughput_ratio, iteration.end_to_end.ci
    if iteration.looks:
        return iteration.looks[-1].estimate, iteration.looks[-1].ci
    return None, None
