"""Accepted changes as one stack: each measured again on top of all the others.

A candidate is judged on top of those that were accepted before it, so what came later may have
taken what it gained: a cache makes a faster look-up idle. Here each is measured once more, the
whole stack against the same stack without it. One that no longer pays is taken out, and what is
left is measured again. Nothing new is let in, so this spends nothing of the run's false accepts.

What stays is committed anew where an earlier change is taken out, and each such commit has to pass
its own correctness gate there, against the commit that it stands on; else nothing is taken out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from layers.base import Candidate, StackView
from layers.evidence import Iteration, Look, Moved, OnTop, Verdict, changes_of


@dataclass(frozen=True, slots=True)
class Chain:
    """Accepted candidates by number, each committed on top of the one before, and their end."""

    candidates: Mapping[int, Candidate]
    end: StackView

    def others(self, n: int) -> list[int]:
        """Return the numbers of all but one."""
        return [m for m in self.candidates if m != n]


class Combining(Protocol):
    """The work that the combination orders."""

    def without(self, n: int, chain: Chain) -> Chain | None:
        """Return the chain without one candidate, None where later ones build on it."""

    def on_top(self, n: int, shorter: Chain, chain: Chain) -> OnTop:
        """Measure a candidate on top of the others: the end of `chain` against that of `shorter`."""

    def told(self, found: OnTop) -> OnTop:
        """Journal an answer that needed no measurement."""

    def take_out(self, n: int, shorter: Chain) -> None:
        """Move the branches of the candidates that are left; remove the one taken out."""

    def time_left(self) -> bool:
        """Say whether there is time for another measurement."""


def combine(stations: Combining, chain: Chain, judged: Sequence[Iteration]) -> Chain:
    """Measure each candidate of `chain` on top of the others; return the chain of those that pay.

    `judged` are their iterations. The one with the smallest gain goes first: it is the likeliest
    to pay no longer.
    """
    waiting = _waiting(chain, judged)
    while waiting:
        n = waiting.pop(0)
        if not stations.time_left():
            _untold(stations, chain, [n, *waiting])
            return chain
        shorter = stations.without(n, chain)
        if shorter is None:
            stations.told(_plain(n, chain, "not_separable", "later_changes_build_on_it"))
            continue
        if stations.on_top(n, shorter, chain).verdict == "dropped":
            stations.take_out(n, shorter)
            chain = shorter
            waiting = _waiting(chain, judged)
    return chain


def answer(n: int, chain: Chain, again: Iteration) -> OnTop:
    """Return what a new measurement says about a candidate on top of the others.

    Only a look that rejects it says that it no longer pays: one that cannot tell does not, nor
    does a tool that broke, or a stack that answers otherwise without the change.
    """
    last: Look | None = again.looks[-1] if again.looks else None
    if again.verdict is Verdict.FAILED:  # whatever was measured before it
        return _plain(n, chain, "not_measured", again.reason)
    if last is None or (last.decision != "accept" and again.reason != last.reason):
        differs = again.verdict is Verdict.REJECTED
        return _plain(n, chain, "not_separable" if differs else "not_measured", again.reason)
    verdict = {"accept": "pays", "reject": "dropped"}.get(last.decision, "inconclusive")
    return _plain(n, chain, verdict, last.reason).model_copy(update={"look": last})


def settled(iterations: Sequence[Iteration], on_top: Sequence[OnTop]) -> list[Iteration]:
    """Return the iterations; of those that were taken out, the verdict is what took them out.

    What they were accepted for stays in the journal. Their last look is the one on top of the
    others, which is also what their finding says.
    """
    dropped = {found.n: found for found in on_top if found.verdict == "dropped"}
    names = {iteration.n: changes_of(iteration) for iteration in iterations}
    return [
        _taken_out(iteration, dropped[iteration.n], names) if iteration.n in dropped else iteration
        for iteration in iterations
    ]


def check_of(candidate: Candidate, on_top: Sequence[OnTop]) -> Moved | None:
    """Return what held a candidate to its class where it was committed anew, None where it was not."""
    every = (moved for found in reversed(on_top) for moved in found.moved)
    return next((moved for moved in every if moved.commit == candidate.commit), None)


def published(iteration: Iteration, candidate: Candidate, on_top: Sequence[OnTop]) -> Iteration:
    """Return the iteration of a candidate as it is in the chain now, with what a reviewer should know.

    Raises RuntimeError for one that was committed anew and not checked there.
    """
    said = [found for found in on_top if found.n == iteration.n]
    if said and said[-1].verdict == "inconclusive":
        told = (
            "measured on top of the other accepted changes, it could not be told whether it still "
            "pays; it is here for what it gained on top of those accepted before it"
        )
        iteration = iteration.model_copy(update={"warnings": [*iteration.warnings, told]})
    if iteration.commit == candidate.commit:
        return iteration
    check = check_of(candidate, on_top)
    if check is None:
        raise RuntimeError(f"candidate {iteration.n} was moved and not checked")
    return iteration.model_copy(
        update={
            "commit": candidate.commit,
            "base_commit": candidate.base_commit,
            "patch_sha256": hashlib.sha256(
                candidate.patch.encode("utf-8", "surrogateescape")
            ).hexdigest(),
            "warnings": [*iteration.warnings, _moved_words(check)],
        }
    )


def _moved_words(check: Moved) -> str:
    return (
        "it was judged on top of a change that was taken out afterwards, because that one no "
        f"longer paid: the gain was measured at commit {check.measured_commit[:12]}, and this one "
        "was built and held to its class again on the commit that it stands on now "
        f"({check.outputs_compared} answers compared)"
    )


def _taken_out(iteration: Iteration, found: OnTop, names: Mapping[int, Sequence[str]]) -> Iteration:
    others = [name for n in found.others for name in names.get(n, ())]
    gain = iteration.end_to_end.throughput_ratio if iteration.end_to_end else 1.0
    looks = [*iteration.looks, *([found.look] if found.look else [])]
    return iteration.model_copy(
        update={
            "verdict": Verdict.REJECTED,
            "reason": "no_gain_on_top_of_others",
            "detail": f"accepted at {gain:.3f} times; on top of {', '.join(others)} it no longer "
            f"pays ({found.reason})",
            "hypothesis": iteration.hypothesis.model_copy(update={"on_top": others}),
            "looks": looks,
            "end_to_end": None,
        }
    )


def _waiting(chain: Chain, judged: Sequence[Iteration]) -> list[int]:
    """Return whom to measure, smallest gain first: all that were not judged on top of the others."""
    by_n = {iteration.n: iteration for iteration in judged}
    last = next(reversed(list(chain.candidates)), None)
    again = [
        n
        for n, candidate in chain.candidates.items()
        if n != last or by_n[n].base_commit != candidate.base_commit
    ]
    return sorted(again, key=lambda n: (_gain(by_n[n]), n))


def _gain(iteration: Iteration) -> float:
    return iteration.end_to_end.throughput_ratio if iteration.end_to_end else 1.0


def _untold(stations: Combining, chain: Chain, left: Sequence[int]) -> None:
    for n in left:
        stations.told(_plain(n, chain, "not_measured", "time_budget_spent"))


def _plain(n: int, chain: Chain, verdict: str, reason: str) -> OnTop:
    return OnTop.model_validate(
        {"n": n, "verdict": verdict, "reason": reason, "others": chain.others(n)}
    )
