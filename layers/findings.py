"""What one iteration taught about its card. Pure: the ground it stands on is passed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge.cards import GREATEST_RATIO, LEAST_RATIO, LEAST_SHARE, Finding
from knowledge.ground import split_change
from knowledge.standing import ON_TOP_ONLY

if TYPE_CHECKING:
    from layers.base import Ground
    from layers.evidence import Interval, Iteration


def finding(iteration: Iteration, ground: Ground) -> Finding:
    """Return the finding of one iteration, for the card that it tried, or the skill that it applied.

    The gain is the end-to-end throughput ratio of fresh pairs where there is one, else the
    estimate of the last look (which a reader must take with the verdict), else None. Of a change
    that was taken out beside others it is what it gained on top of them, so the share, which was
    measured without them, is left out.
    """
    gain, interval = gain_of(iteration)
    hypothesis = iteration.hypothesis
    models = {split_change(name)[1] for name in hypothesis.together} or {hypothesis.model}
    return Finding(
        date=ground.date,
        stack=ground.stack,
        commit=iteration.base_commit or ground.commit,
        model=hypothesis.model,
        issue="" if hypothesis.contract is None else iteration.card,
        verdict=iteration.verdict.value,
        reason=iteration.reason,
        gain=gain,
        ci=interval,
        share=_share(iteration),
        hardware=ground.hardware,
        versions=dict(ground.versions),
        workload=ground.workload,
        fvec=ground.fvec,
        code={model: ground.code[model] for model in sorted(models & ground.code.keys())},
        on_top=list(hypothesis.on_top),
        together=list(hypothesis.together),
        run=ground.run,
    )


def _share(iteration: Iteration) -> float | None:
    share = iteration.hypothesis.share
    return None if iteration.reason == ON_TOP_ONLY or share < LEAST_SHARE else share


def gain_of(iteration: Iteration) -> tuple[float | None, Interval | None]:
    """Return end-to-end gain and interval, where they are numbers that a card may hold."""
    if iteration.end_to_end is not None:
        gain, ci = iteration.end_to_end.throughput_ratio, iteration.end_to_end.ci
    elif iteration.looks:
        gain, ci = iteration.looks[-1].estimate, iteration.looks[-1].ci
    else:
        return None, None
    held = all(LEAST_RATIO <= ratio <= GREATEST_RATIO for ratio in (gain, *ci)) and ci[0] <= ci[1]
    return (gain, ci) if held else (None, None)
