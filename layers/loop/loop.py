"""The loop: sample one layer, diagnose, optimize, verify, journal; then say why it ended.

Pure control flow over `Stations`, which do the work. Nothing here measures, compares or decides
a verdict, so the order of the stations can be read, and tested, on one screen.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from knowledge.cards import CookbookCard
from layers.base import Candidate, Edit, Hypothesis, Layer, LayerName, Profile, StackView
from layers.errors import FvecError, InvalidInput, RunStopped
from layers.evidence import Iteration, Noise, Verdict, changes_of
from layers.loop.proposing import Heard, Situation, Written
from layers.loop.sampling import Past, Skipped, Weighed, choose_layer, rank

TIME_SPENT = "stopped: the time budget is spent"
MAX_FAILURES = 2  # a tool that broke twice will break again: stop and say so


class Stations(Protocol):
    """The work that the loop orders; implemented once, in `layers.loop.stations`."""

    def calibrate(self) -> Noise:
        """Measure what the unmodified stack differs by from itself."""

    def profile(self, base: StackView) -> Profile:
        """Profile the live stack under load."""

    def cards(self, layer: LayerName) -> Sequence[CookbookCard]:
        """Return the cards that the layer may use."""

    def weigh(self, found: Sequence[Hypothesis], on_top: Sequence[str]) -> Weighed:
        """Return what earlier runs say about hypotheses, on top of changes accepted in this one."""

    def together(self) -> Layer:
        """Return what carries out several hypotheses as one candidate."""

    def past(self) -> Sequence[Past]:
        """Return what earlier runs found, for the sampling of layers."""

    def write(self, situation: Situation) -> Written | None:
        """Have the next proposer write a candidate; None once none is left to be asked."""

    def heard(self, iteration: Iteration, situation: Situation) -> Heard:
        """Tell the author of a candidate what became of it."""

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

    def cut(self, tried: int) -> int:
        """Return how many attempts at the first `tried` candidates were cut short after a look.

        A look has spent of the run's rate of false accepts: each such attempt counts as a candidate.
        """


@dataclass
class LoopState:
    """What the loop has done so far."""

    base: StackView
    profile: Profile | None = None
    iterations: list[Iteration] = field(default_factory=list)
    tried: set[tuple[str, str]] = field(default_factory=set)  # (card, model)
    skipped: dict[tuple[str, str], Skipped] = field(default_factory=dict)
    unwritten: dict[tuple[str, str], str] = field(default_factory=dict)  # with the reason
    joining: bool = True  # several changes as one candidate, until one such was not accepted
    elsewhere: int = 0  # hypotheses that other shards of the run try
    asked: int = 0  # how often a proposer was

    @property
    def in_place(self) -> list[str]:
        """The changes that were accepted so far, by name."""
        accepted = (i for i in self.iterations if i.verdict is Verdict.ACCEPTED)
        return [name for i in accepted for name in changes_of(i)]

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
    cookbook: bool = True,
) -> tuple[LoopState, str]:
    """Run until the budget is spent or nothing beats the noise; return the state and why.

    The layers' own rewrites go first, unless `cookbook` is off: they cost nothing. Proposers are
    asked once these have nothing left, one candidate at a time.
    """
    state = LoopState(base=start)
    noise = stations.calibrate()
    while True:
        tried = len(state.iterations)
        cut = stations.cut(tried)
        if tried + cut >= candidates:
            return state, f"stopped after {candidates} candidates, as the budget says{_of_cut(cut)}"
        if state.count(Verdict.FAILED) >= MAX_FAILURES:
            return state, "stopped: the tools failed twice; see the journal"
        if not stations.time_left():
            return state, TIME_SPENT
        try:
            layer, hypothesis = _next_hypothesis(
                stations, layers if cookbook else (), state, noise, rng
            )
        except FvecError as error:
            if not state.iterations or isinstance(error, RunStopped):
                raise
            # What was accepted before is still to be published.
            return state, f"stopped: {_first_line(error)}"
        if layer is not None and hypothesis is not None:
            _try(stations, layer, hypothesis, state)
        elif not _try_written(stations, layers, state, noise, candidates - tried):
            return state, _nothing_left(state)


def _next_hypothesis(
    stations: Stations,
    layers: Sequence[Layer],
    state: LoopState,
    noise: Noise,
    rng: random.Random,
) -> tuple[Layer | None, Hypothesis | None]:
    """Sample one layer among those with something worth trying, and take its best hypothesis.

    What earlier runs accepted on this ground goes first, as one candidate: no draw is needed to
    try it, and one trial measures it all again.
    """
    weighed = stations.weigh(_found(stations, layers, state), state.in_place)
    state.elsewhere = weighed.elsewhere
    floor = noise.work.floor_pct / 100
    known = weighed.together
    if known is not None and state.joining and rank([known], floor)[0]:
        stations.record("sampled", f"not drawn: {known.why}; they are measured again first, as one")
        return stations.together(), known
    worth, skipped = rank(weighed.hypotheses, floor, answered=weighed.answered)
    state.skipped.update({(s.hypothesis.card, s.hypothesis.model): s for s in skipped})
    best: dict[LayerName, Hypothesis] = {}
    for hypothesis in worth:
        best.setdefault(hypothesis.layer, hypothesis)
    if not best:
        return None, None
    tried = [Past(i.layer, i.verdict) for i in state.iterations]
    shares = {name: hypothesis.score for name, hypothesis in best.items()}
    name, why = choose_layer(shares, [*stations.past(), *tried], rng)
    stations.record("sampled", why)
    return next(layer for layer in layers if layer.name is name), best[name]


def _found(stations: Stations, layers: Sequence[Layer], state: LoopState) -> list[Hypothesis]:
    """Return what the layers propose for the stack as it is now and was not tried in this run."""
    profile = _profiled(stations, state)
    if profile.near_floor:
        return []
    return [
        hypothesis
        for layer in layers
        for hypothesis in layer.diagnose(
            layer.profile(profile, state.base), state.base, stations.cards(layer.name)
        )
        if (hypothesis.card, hypothesis.model) not in state.tried
    ]


def _profiled(stations: Stations, state: LoopState) -> Profile:
    """Return the profile of the stack as it is now, taken once."""
    state.profile = state.profile or stations.profile(state.base)
    return state.profile


def _try(stations: Stations, layer: Layer, hypothesis: Hypothesis, state: LoopState) -> None:
    """Write one candidate, have it judged, and build on it if it was accepted."""
    key = (hypothesis.card, hypothesis.model)
    state.tried.add(key)
    state.skipped.pop(key, None)
    state.joining &= not hypothesis.together
    edit = layer.optimize(hypothesis, state.base)
    if edit is None:
        state.unwritten[key] = "the code is not of a shape that the rewrite can change exactly"
        return
    _judge(stations, layer, hypothesis, edit, state)


def _try_written(
    stations: Stations,
    layers: Sequence[Layer],
    state: LoopState,
    noise: Noise,
    left: int,
) -> bool:
    """Have a proposer write a candidate, and have it judged; False once none is left to be asked."""
    situation = _situation(stations, state, noise, left)
    if situation is None:
        return False
    written = stations.write(situation)
    if written is None:
        return False
    if written.hypothesis is None or written.edit is None:
        return True
    hypothesis = replace(written.hypothesis, on_top=tuple(state.in_place))
    layer = next(one for one in layers if one.name is hypothesis.layer)
    iteration = _judge(stations, layer, hypothesis, written.edit, state)
    if iteration is not None:
        stations.heard(iteration, situation)
    return True


def _situation(stations: Stations, state: LoopState, noise: Noise, left: int) -> Situation | None:
    """Return what a proposer may know, None near the floor: there is nothing to be gained."""
    state.asked += 1
    profile = _profiled(stations, state)
    if profile.near_floor:
        return None
    return Situation(
        base=state.base,
        profile=profile,
        noise=noise,
        iterations=tuple(state.iterations),
        not_tried=tuple(state.not_tried),
        number=state.asked,
        left=left,
    )


def _judge(
    stations: Stations, layer: Layer, hypothesis: Hypothesis, edit: Edit, state: LoopState
) -> Iteration | None:
    """Commit a candidate and have it judged; build on it if it was accepted."""
    try:
        candidate = stations.commit(state.base, hypothesis, edit)
    except RunStopped:
        raise
    except InvalidInput as error:  # a refused path, or a branch of that name that is not ours
        state.unwritten[hypothesis.card, hypothesis.model] = _first_line(error)
        return None
    state.unwritten.pop((hypothesis.card, hypothesis.model), None)  # of an earlier attempt
    iteration = stations.verify(candidate, layer, state.base, len(state.iterations) + 1)
    state.iterations.append(iteration)
    if iteration.verdict is Verdict.ACCEPTED:
        state.base = stations.adopt(candidate)
        state.joining |= bool(hypothesis.together)
        state.profile = None  # the time now goes elsewhere
    return iteration


def _of_cut(cut: int) -> str:
    """Say which of the candidates were attempts that somebody ended; nothing of none."""
    attempts = "1 attempt" if cut == 1 else f"{cut} attempts"
    return f": {attempts} that ended after a look, without a verdict, counted" if cut else ""


def _first_line(error: FvecError) -> str:
    return error.message.partition("\n")[0]


def _nothing_left(state: LoopState) -> str:
    """Say in one line why no hypothesis is left."""
    if state.profile is not None and state.profile.near_floor:
        return f"stopped: {state.profile.near_floor}"
    if state.iterations:
        return "stopped: no hypothesis is left that could beat the noise floor"
    refuted = sum(skipped.refuted for skipped in state.skipped.values())
    reasons = {
        "below the noise floor": len(state.skipped) - refuted,
        "already answered by earlier runs": refuted,
        "that no rewrite can carry out here": len(state.unwritten),
        "that other shards try": state.elsewhere,
    }
    told = [f"{count} {reason}" for reason, count in reasons.items() if count]
    if not told:
        return "nothing to try: no card of the cookbook matches this stack"
    return f"nothing worth trying: of the hypotheses, {', '.join(told)}"
