"""What agents did in a run, told from the journal: their stories, what they yielded and cost. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from layers.evidence import Iteration, Verdict
from layers.record.answers import HeardAnswer, WrittenAnswer
from layers.story import AgentsReport, Cost, Step, Story, Yield


def with_stories(
    iterations: Sequence[Iteration], answers: Sequence[WrittenAnswer | HeardAnswer]
) -> list[Iteration]:
    """Return the iterations, each story ended by what its author made of the verdict."""
    later = {one.n: one.steps for one in answers if isinstance(one, HeardAnswer)}
    return [
        one.model_copy(update={"story": continued(one.story, later[one.n])})
        if one.story is not None and one.n in later
        else one
        for one in iterations
    ]


def continued(story: Story, steps: Sequence[Step]) -> Story:
    """Return a story with more steps at its end."""
    return story.model_copy(update={"steps": [*story.steps, *steps]})


def agents_report(
    iterations: Sequence[Iteration], answers: Sequence[WrittenAnswer | HeardAnswer]
) -> AgentsReport | None:
    """Return what agents did, from their answers in the journal's order; None where none was asked.

    `iterations` have their stories, see `with_stories`.
    """
    if not answers:
        return None
    written = [one for one in answers if isinstance(one, WrittenAnswer)]
    alone = [one.story for one in written if one.hypothesis is None]
    names = dict.fromkeys([i.hypothesis.proposer for i in iterations])
    names |= dict.fromkeys(one.proposer for one in written)
    return AgentsReport(
        yields=[_yield(name, iterations, alone) for name in names],
        without_candidate=alone,
        backlog=answers[-1].backlog,
        ended="; ".join(dict.fromkeys(one.ended for one in answers if one.ended)),
    )


def _yield(name: str, iterations: Sequence[Iteration], alone: Sequence[Story]) -> Yield:
    tried = [one for one in iterations if one.hypothesis.proposer == name]
    unfinished = [story for story in alone if story.proposer == name]
    stories = [*(one.story for one in tried if one.story is not None), *unfinished]
    verdicts = [one.verdict for one in tried]
    cost = sum((story.cost for story in stories), Cost(usd=0.0))
    return Yield(
        proposer=name,
        tried=len(tried),
        accepted=verdicts.count(Verdict.ACCEPTED),
        rejected=verdicts.count(Verdict.REJECTED),
        inconclusive=verdicts.count(Verdict.INCONCLUSIVE),
        failed=verdicts.count(Verdict.FAILED),
        no_candidate=len(unfinished),
        wall_s=sum(one.wall_s for one in tried) + cost.wall_s,
        cost=cost if stories else None,
    )
