"""The loop: sample one layer, diagnose, optimize, verify, journal; then say why it ended.

Pure control flow over `Stations`, which do the work. Nothing here measures, compares or decides
a verdict, so the order of the stations can be read, and tested, on one screen.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from knowledge.cards import CookbookCard
from layers.base import Candidate, Edit, Hypothesis, Layer, LayerName, Profile, StackView
from layers.errors import FvecError
from layers.evidence import Iteration, Noise, Verdict
from layers.sampling import Past, Skipped, choose_layer, rank

MAX_FAILURES = 2  # a tool that broke twice will break again: stop and say so


class Stations(Protocol):
    """The work that the loop orders; implemented once, in `layers.run`."""

    def calibrate(self) -> Noise:
        """Measure what the unmodified stack differs by from itself."""

    def profile(self, base: StackView) -> Profile:
        """Profile the live stack under load."""

    def cards(self, layer: LayerName) -> Sequence[CookbookCard]:
        """Return the cards that the layer may use."""

    def refuted(self, hypothesis: Hypothesis) -> str | None:
        """Say why earlier runs already answered this hypothesis, or None."""

    def past(self) -> Sequence[Past]:
        """Return what earlier runs found, for the sampling of layers."""

    def commit(self, base: StackView, hypothesis: Hypothesis, edit: Edit) -> Candidate:
        """Commit an edit on a branch of its own."""

    def verify(self, candidate: Candidate, layer: Layer, base: StackView, n: int) -> Iteration:
        """Judge a candidate; the verdict and all that led to it."""

    def adopt(self, candidate: Candidate) -> StackView:
        """Return the stack with an accepted candidate in it, for later ones to build on."""

    def record(self, kind: str, text: str) -> None:
        """Journal one line for the report."""

    def time_left(self) -> bool:
        """Say whether the budget allows another candidate."""


@dataclass
class LoopState:
    """What the loop has done so far."""

    base: StackView
    profile: Profile | None = None
    iterations: list[Iteration] = field(default_factory=list)
    tried: set[tuple[str, str]] = field(default_factory=set)  # (card, model)
    skipped: dict[tuple[str, str], Skipped] = field(default_factory=dict)
    unwritten: dict[tuple[str, str], str] = field(default_factory=dict)  # with the reason

    @property
    def not_tried(self) -> list[str]:
        """One line for each hypothesis that was not tried, with the reason."""
        reasons = {key: skipped.reason for key, skipped in self.skipped.items()} | self.unwritten
        return [f"{card} on {model}: {why}" for (card, model), why in sorted(reasons.items())]

    def count(self, verdict: Verdict) -> int:
        """Return how many iterations ended in `verdict`."""
        return sum(iteration.verdict is verdict for iteration in self.iterations)


def run_loop(
    stations: Stations,
    layers: Sequence[Layer],
    start: StackView,
    *,
    rng: random.Random,
    candidates: int,
) -> tuple[LoopState, str]:
    """Run until the budget is spent or nothing beats the noise; return the state and why."""
    state = LoopState(base=start)
    noise = stations.calibrate()
    while True:
        if len(state.iterations) >= candidates:
            return state, f"stopped after {candidates} candidates, as the budget says"
        if state.count(Verdict.FAILED) >= MAX_FAILURES:
            return state, "stopped: the tools failed twice; see the journal"
        if not stations.time_left():
            return state, "stopped: the time budget is spent"
        try:
            layer, hypothesis = _next_hypothesis(stations, layers, state, noise, rng)
        except FvecError as error:
            if not state.iterations:
                raise
            # What was accepted before is still to be published.
            return state, f"stopped: {_first_line(error)}"
        if layer is None or hypothesis is None:
            return state, _nothing_left(state)
        _try(stations, layer, hypothesis, state)


def _next_hypothesis(
    stations: Stations,
    layers: Sequence[Layer],
    state: LoopState,
    noise: Noise,
    rng: random.Random,
) -> tuple[Layer | None, Hypothesis | None]:
    """Sample one layer among those with something worth trying, and take its best hypothesis."""
    profile = state.profile or stations.profile(state.base)
    state.profile = profile
    best: dict[LayerName, tuple[Layer, Hypothesis]] = {}
    for layer in layers:
        found = layer.diagnose(
            layer.profile(profile, state.base), state.base, stations.cards(layer.name)
        )
        fresh = [h for h in found if (h.card, h.model) not in state.tried]
        worth, skipped = rank(fresh, noise.work.floor_pct / 100, refuted=stations.refuted)
        state.skipped.update({(s.hypothesis.card, s.hypothesis.model): s for s in skipped})
        if worth:
            best[layer.name] = (layer, worth[0])
    if not best:
        return None, None
    shares = {name: hypothesis.score for name, (_, hypothesis) in best.items()}
    name, why = choose_layer(shares, stations.past(), rng)
    stations.record("sampled", why)
    return best[name]


def _try(stations: Stations, layer: Layer, hypothesis: Hypothesis, state: LoopState) -> None:
    """Write one candidate, have it judged, and build on it if it was accepted."""
    key = (hypothesis.card, hypothesis.model)
    state.tried.add(key)
    state.skipped.pop(key, None)
    edit = layer.optimize(hypothesis, state.base)
    if edit is None:
        state.unwritten[key] = "the code is not of a shape that the rewrite can change exactly"
        return
    try:
        candidate = stations.commit(state.base, hypothesis, edit)
    except FvecError as error:  # a refused path, or a branch of that name that is not ours
        state.unwritten[key] = _first_line(error)
        return
    iteration = stations.verify(candidate, layer, state.base, len(state.iterations) + 1)
    state.iterations.append(iteration)
    if iteration.verdict is Verdict.ACCEPTED:
        state.base = stations.adopt(candidate)
        state.profile = None  # the time now goes elsewhere


def _first_line(error: FvecError) -> str:
    return error.message.partition("\n")[0]


def _nothing_left(state: LoopState) -> str:
    """Say in one line why no hypothesis is left."""
    if state.iterations:
        return "stopped: no hypothesis is left that could beat the noise floor"
    refuted = sum(skipped.refuted for skipped in state.skipped.values())
    reasons = {
        "below the noise floor": len(state.skipped) - refuted,
        "already answered by earlier runs": refuted,
        "that no rewrite can carry out here": len(state.unwritten),
    }
    told = [f"{count} {reason}" for reason, count in reasons.items() if count]
    if not told:
        return "nothing to try: no card of the cookbook matches this stack"
    return f"nothing worth trying: of the hypotheses, {', '.join(told)}"
