"""Runs in a row that learn from each other: the real loop, cards and findings over a table of verdicts.

Verdicts, gains, shares and the launches that each took are those of two recorded runs of the
example, one in which the configuration changes were decided early and one in which they were not.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from knowledge.cards import CookbookCard
from knowledge.refine import merge_findings
from knowledge.store import Cards, builtin_directory, load_cards
from knowledge.yamlfile import loads
from layers.base import Candidate, ChangeClass, Edit, Ground, Hypothesis, LayerName, Profile
from layers.evidence import EndToEnd, HypothesisRecord, Iteration, Noise, NoiseFloor, Verdict
from layers.loop import learning
from layers.loop.loop import LoopState, run_loop
from layers.loop.sampling import Past, Weighed
from layers.registry import LAYERS
from tests.unit.test_loop import START, Joint

CALIBRATION_LAUNCHES = 2
FIRST_DAY = date(2026, 11, 29)
NOISE = Noise(work=NoiseFloor(floor_pct=3.65, pair_sd_pct=1.78, pairs=8, launches=2))


@dataclass(frozen=True)
class Recorded:
    """What became of one change, and how many launches that took, the commit gate's included."""

    layer: LayerName
    card: str
    model: str
    share: float
    verdict: Verdict
    ratio: float
    ci: tuple[float, float]
    launches: int

    @property
    def name(self) -> str:
        return f"{self.card} on {self.model}"


FEATURES, SERVER, CONFIG = LayerName.FEATURES, LayerName.SERVER, LayerName.CONFIG
ACCEPTED, REJECTED = Verdict.ACCEPTED, Verdict.REJECTED
ACCEPTED_ONES = (
    Recorded(FEATURES, "lookups-one-pass", "features", 0.49, ACCEPTED, 2.53, (2.34, 2.74), 2),
    Recorded(SERVER, "native-string-tensors", "features", 0.15, ACCEPTED, 1.25, (1.17, 1.33), 2),
)
BATCHING = "dynamic-batching"
UNDECIDED = (
    *ACCEPTED_ONES,
    Recorded(CONFIG, BATCHING, "features", 0.52, Verdict.INCONCLUSIVE, 1.02, (1.0, 1.04), 8),
    Recorded(CONFIG, BATCHING, "ranker", 0.23, REJECTED, 1.005, (0.99, 1.02), 8),
)
DECIDED = (
    ACCEPTED_ONES[0],
    replace(ACCEPTED_ONES[1], launches=3),
    Recorded(CONFIG, BATCHING, "features", 0.5, REJECTED, 0.995, (0.97, 1.02), 2),
    Recorded(CONFIG, BATCHING, "ranker", 0.24, REJECTED, 0.991, (0.97, 1.01), 2),
)


@dataclass
class Tabled:
    """A layer whose changes are those of a table, until they are in the stack."""

    name: LayerName
    table: Sequence[Recorded]

    def profile(self, profile, stack):
        return ()

    def diagnose(self, hotspots, stack, cards):
        known = {card.id: card for card in cards}
        return [
            Hypothesis(
                layer=row.layer,
                card=row.card,
                model=row.model,
                title=row.card,
                why="measured once",
                share=row.share,
                expected_gain=known[row.card].gain.expected,
                best_gain=known[row.card].gain.best,
                change_class=ChangeClass(known[row.card].change_class),
                transform=known[row.card].transform,
            )
            for row in self.table
            if row.layer is self.name and row.name not in stack.commit
        ]

    def optimize(self, hypothesis, stack):
        return Edit({"model.py": b""}, hypothesis.title, "")


@dataclass
class Run:
    """The stations of one run, which look verdicts up and count launches."""

    table: Sequence[Recorded]
    known: Cards
    ground: Ground
    launches: int = CALIBRATION_LAUNCHES
    lines: list[str] = field(default_factory=list)

    def calibrate(self):
        return NOISE

    def profile(self, base):
        return Profile("py-spy", Path("raw"), 1.0, 10, {"m": 1.0}, {}, ())

    def cards(self, layer):
        return self.known.for_layer(layer)

    def weigh(self, found: Sequence[Hypothesis], on_top: Sequence[str]) -> Weighed:
        return learning.weigh(self.known, self.ground, found, on_top)

    def together(self):
        return Joint()

    def write(self, situation: object) -> None:
        return None

    def past(self) -> Sequence[Past]:
        return learning.past(self.known, self.ground)

    def commit(self, base, hypothesis, edit):
        commit = f"{base.commit}+{'+'.join(hypothesis.changes)}"
        return Candidate(hypothesis, edit, "branch", base.commit, commit, Path("/w"), "patch")

    def verify(self, candidate, layer, base, n):
        h = candidate.hypothesis
        rows = [row for row in self.table if row.name in h.changes]
        self.launches += max(row.launches for row in rows)
        ratio, low, high = 1.0, 1.0, 1.0
        for row in rows:
            ratio, low, high = ratio * row.ratio, low * row.ci[0], high * row.ci[1]
        end = EndToEnd(throughput_ratio=ratio, ci=(low, high), cpu_ratio=1, cpu_ci=(1, 1), pairs=4)
        record = HypothesisRecord(
            title=h.title,
            why=h.why,
            model=h.model,
            share=h.share,
            expected_gain=h.expected_gain,
            score=h.score,
            change_class=h.change_class,
            on_top=list(h.on_top),
            together=[member.change for member in h.together],
        )
        verdict = next((row.verdict for row in rows if row.verdict is not ACCEPTED), ACCEPTED)
        return Iteration(
            n=n,
            layer=h.layer,
            card=h.card,
            hypothesis=record,
            verdict=verdict,
            reason="last_look_reached" if verdict is Verdict.INCONCLUSIVE else "looked_up",
            end_to_end=end,
            base_commit=candidate.base_commit,
        )

    def adopt(self, candidate):
        return replace(START, commit=candidate.commit)

    def record(self, kind, text):
        self.lines.append(text)

    def cut(self, tried):
        return 0

    def time_left(self):
        return True


@dataclass
class Repository:
    """The cards of one serving repository, as text, between runs."""

    table: Sequence[Recorded]
    known: Cards = field(default_factory=lambda: load_cards(builtin_directory()))
    texts: dict[str, str] = field(default_factory=dict)

    def run(self, day: int, **ground: object) -> tuple[Run, LoopState]:
        """Run once, `day` days after the first; the cards take what was found."""
        versions = {"triton": "2.51.0", "numpy": "1.26.4"}
        here = Ground(
            date=FIRST_DAY + timedelta(days=day), stack="ads", commit="c0", hardware="two cores",
            versions=versions, workload="w", run=f"run-{day}-{len(self.texts)}-{ground}",
        )  # fmt: skip
        run = Run(self.table, self.known, replace(here, **ground))
        layers = [Tabled(name, self.table) for name in (FEATURES, SERVER, CONFIG)]
        state, _ = run_loop(run, layers, START, rng=random.Random(day), candidates=20)
        for card, found in learning.findings(state.iterations, LAYERS, run.ground).items():
            text = self.texts.get(card) or self.known.path_of(card).read_text()
            self.texts[card] = merge_findings(text, found)
        own = {card: loads(text, Path(card), CookbookCard) for card, text in self.texts.items()}
        cookbook = tuple(own.get(card.id, card) for card in self.known.cookbook)
        self.known = Cards(cookbook, self.known.facts, self.known.paths)
        return run, state


@pytest.mark.parametrize(
    ("table", "launches"),
    [(UNDECIDED, [22, 4, 4, 4, 4, 4]), (DECIDED, [11, 5, 5, 5, 5, 5])],
)
def test_later_runs_reach_the_same_end_in_under_half_of_the_launches(table, launches) -> None:
    repository = Repository(table)
    runs = [repository.run(day) for day in range(6)]
    assert [run.launches for run, _ in runs] == launches
    assert all(2 * later < launches[0] for later in launches[1:])
    ends = {tuple(sorted(state.in_place)) for _, state in runs}
    assert ends == {tuple(sorted(row.name for row in ACCEPTED_ONES))}
    assert all(len(state.iterations) == 1 for _, state in runs[1:])


def test_ten_runs_leave_cards_of_the_size_that_three_leave() -> None:
    repository = Repository(UNDECIDED)
    sizes = []
    for day in range(10):
        repository.run(day % 6)
        sizes.append(sum(map(len, repository.texts.values())))
    assert sizes[9] < 1.1 * sizes[2]
    assert all(len(card.findings) <= 3 for card in repository.known.cookbook)


def test_nothing_is_taken_over_the_second_run_measures_what_it_reports() -> None:
    repository = Repository(UNDECIDED)
    repository.run(0)
    slower = tuple(
        replace(row, ratio=1.0 + (row.ratio - 1) / 2, ci=(1.05, 2.0))
        if row.verdict is ACCEPTED
        else row
        for row in UNDECIDED
    )
    repository.table = slower
    _, state = repository.run(1)
    ratios = [i.end_to_end.throughput_ratio for i in state.iterations]
    assert ratios == [pytest.approx(1.765 * 1.125)]


def test_a_change_that_no_longer_holds_is_found_out_alone() -> None:
    repository = Repository(DECIDED)
    repository.run(0)
    broken = replace(ACCEPTED_ONES[1], verdict=REJECTED, ratio=0.9, ci=(0.88, 0.92), launches=1)
    repository.table = (ACCEPTED_ONES[0], broken, *DECIDED[2:])
    _, state = repository.run(1)
    assert state.in_place == [ACCEPTED_ONES[0].name]
    assert (len(state.iterations[0].hypothesis.together), state.iterations[0].verdict) == (
        2,
        REJECTED,
    )
    assert broken.name in {f"{i.card} on {i.hypothesis.model}" for i in state.iterations}
    _, state = repository.run(2)
    assert state.in_place == [ACCEPTED_ONES[0].name]
    assert all(not i.hypothesis.together for i in state.iterations)


@pytest.mark.parametrize(
    "moved",
    [
        {"hardware": "four cores"},
        {"versions": {"triton": "2.62.0", "numpy": "1.26.4"}},
        {"workload": "w2"},
        {"date": FIRST_DAY + timedelta(days=100)},
    ],
)
def test_on_moved_ground_everything_is_a_hypothesis_again(moved) -> None:
    repository = Repository(DECIDED)
    first, _ = repository.run(0)
    again, state = repository.run(1, **moved)
    assert again.launches == first.launches
    assert len(state.iterations) == len(DECIDED)
    assert any("count as" in line for line in again.lines)


def test_an_inconclusive_change_rests_for_a_week_and_comes_last_then() -> None:
    repository = Repository(UNDECIDED)
    repository.run(0)
    rested = [len(repository.run(day)[1].iterations) for day in (1, 6, 7)]
    assert rested == [1, 1, 2]
