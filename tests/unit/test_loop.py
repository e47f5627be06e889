"""The loop's control flow over scripted stations: who is asked what, and why it ends."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from layers.base import Candidate, ChangeClass, Edit, Hypothesis, LayerName, Profile, StackView
from layers.errors import FvecError, InvalidInput, JournalMismatch, ToolFailed
from layers.evidence import (
    FloorRecord,
    HypothesisRecord,
    Iteration,
    Noise,
    NoiseFloor,
    Verdict,
)
from layers.loop.loop import run_loop
from layers.loop.sampling import Past, Weighed, joined
from layers.manifest import Manifest

NOISE = Noise(work=NoiseFloor(floor_pct=2.0, pair_sd_pct=1.0, pairs=8, launches=2))
MANIFEST = Manifest.model_validate(
    {
        "schema": "fvec.manifest/1",
        "stack": {"name": "s", "models": "models", "entry": "m"},
        "traffic": {"requests": "r.bin", "arrivals": "a.csv"},
        "slo": {"p99_ms": 10},
    }
)
START = StackView(Path("/stack"), "commit-0", MANIFEST, Path("python"))
NEAR = FloorRecord(
    t_opt_s=1.0,
    t_sum_s=1.5,
    resources={"link": 0.5, "arithmetic": 1.0},
    binding="arithmetic",
    measured_s=1.2,
    ratio=1.2,
    declared=True,
    action="stop",
    reason="a request takes 1.2 s, 1.2 times its floor of 1 s",
)
LEFT = "stopped: no hypothesis is left that could beat the noise floor"


def hypothesis(card: str, share: float = 0.5, layer: LayerName = LayerName.FEATURES) -> Hypothesis:
    return Hypothesis(
        layer=layer,
        card=card,
        transform=card.replace("-", "_"),
        model="m",
        title=card,
        why="because",
        share=share,
        expected_gain=0.5,
        best_gain=0.8,
        change_class=ChangeClass.EXACT,
    )


@dataclass
class Scripted:
    """A layer with fixed hypotheses; a card that is in the stack already is not proposed again."""

    found: tuple[Hypothesis, ...]
    name: LayerName = LayerName.FEATURES
    unwritable: tuple[str, ...] = ()
    asked: list[str] = field(default_factory=list)

    def profile(self, profile, stack):
        return profile.hotspots

    def diagnose(self, hotspots, stack, cards):
        return [h for h in self.found if h.card not in stack.commit.split("+")]

    def refusals(self, stack, cards):
        return []

    def optimize(self, hypothesis, stack):
        self.asked.append(hypothesis.card)
        if hypothesis.card in self.unwritable:
            return None
        return Edit({"models/m/1/model.py": b""}, hypothesis.card, "")

    def verify(self, candidate, baseline, patched):
        return None

    def refine(self, iteration, ground):
        return None


@dataclass
class Script:
    """Stations that answer from a table and write down what they were asked."""

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    answered: dict[str, str] = field(default_factory=dict)  # by card, why it is refuted
    refused: dict[str, FvecError] = field(default_factory=dict)  # by card, on commit
    seconds: int = 1000  # candidates for which there is time
    profiler_breaks_at: str = ""  # commit
    proven: str = ""  # cards, one letter each
    unwritable: tuple[str, ...] = ()
    cuts: tuple[int, ...] = ()  # candidates at which an attempt was cut
    near_floor_at: str = ""  # commit
    calls: list[str] = field(default_factory=list)

    def calibrate(self):
        self.calls.append("calibrate")
        return NOISE

    def profile(self, base):
        self.calls.append(f"profile {base.commit}")
        if base.commit == self.profiler_breaks_at:
            raise ToolFailed("py-spy broke\nand more")
        floor = NEAR if base.commit == self.near_floor_at else None
        return Profile("py-spy", Path("raw"), 1.0, 10, {"m": 1.0}, {}, (), floor=floor)

    def cards(self, layer):
        return ()

    def weigh(self, found, on_top):
        found = [replace(h, on_top=tuple(on_top)) for h in found]
        answered = {h.change: self.answered[h.card] for h in found if h.card in self.answered}
        known = [h for h in found if h.card in self.proven]
        return Weighed(found, answered, joined(known) if len(known) > 1 else None)

    def together(self):
        return Joint(unwritable=self.unwritable)

    def write(self, situation):
        return None

    def past(self):
        return [Past(LayerName.FEATURES, Verdict.ACCEPTED)]

    def commit(self, base, hypothesis, edit):
        if hypothesis.card in self.refused:
            raise self.refused[hypothesis.card]
        cards = [member.card for member in hypothesis.together] or [hypothesis.card]
        name = "+".join([base.commit, *cards])
        return Candidate(hypothesis, edit, "branch", base.commit, name, Path("/w"), "patch")

    def verify(self, candidate, layer, base, n):
        self.calls.append(f"verify {n} {candidate.commit}")
        h = candidate.hypothesis
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
        cards = "+".join(member.card for member in h.together) or h.card
        verdict = self.verdicts.get(cards, Verdict.REJECTED)
        return Iteration(
            n=n, layer=h.layer, card=h.card, hypothesis=record, verdict=verdict, reason="scripted"
        )

    def adopt(self, candidate):
        self.calls.append(f"adopt {candidate.commit}")
        return replace(START, commit=candidate.commit)

    def record(self, kind, text):
        self.calls.append(kind)

    def cut(self, tried):
        return sum(n <= tried for n in self.cuts)

    def time_left(self):
        self.seconds -= 1
        return self.seconds >= 0


@dataclass
class Joint(Scripted):
    """What writes several hypotheses at once."""

    found: tuple[Hypothesis, ...] = ()


def run(script: Script, *layers: Scripted, candidates: int = 10):
    return run_loop(script, layers, START, rng=random.Random(0), candidates=candidates)


def verified(script: Script) -> list[str]:
    return [call.partition(" ")[2] for call in script.calls if call.startswith("verify")]


def test_the_stations_are_visited_in_order():
    script = Script({"a": Verdict.ACCEPTED})
    run(script, Scripted((hypothesis("a"),)))
    assert script.calls == [
        "calibrate",
        "profile commit-0",
        "sampled",
        "verify 1 commit-0+a",
        "adopt commit-0+a",
        "profile commit-0+a",
    ]


def test_an_accepted_candidate_is_what_later_ones_build_on():
    script = Script({"a": Verdict.ACCEPTED, "b": Verdict.ACCEPTED})
    state, _ = run(script, Scripted((hypothesis("a", 0.9), hypothesis("b", 0.4))))
    assert verified(script) == ["1 commit-0+a", "2 commit-0+a+b"]
    assert state.base.commit == "commit-0+a+b"


def test_near_the_floor_nothing_is_diagnosed():
    state, conclusion = run(Script(near_floor_at="commit-0"), Scripted((hypothesis("a"),)))
    assert conclusion == f"stopped: {NEAR.reason}"
    assert state.iterations == []


def test_an_accepted_change_may_lead_to_the_floor():
    script = Script({"a": Verdict.ACCEPTED}, near_floor_at="commit-0+a")
    _, conclusion = run(script, Scripted((hypothesis("a", 0.9), hypothesis("b", 0.4))))
    assert verified(script) == ["1 commit-0+a"]
    assert conclusion == f"stopped: {NEAR.reason}"


@pytest.mark.parametrize("verdict", [Verdict.REJECTED, Verdict.INCONCLUSIVE])
def test_what_is_not_accepted_is_tried_once_and_changes_nothing(verdict):
    script = Script({"a": verdict, "b": verdict})
    state, conclusion = run(script, Scripted((hypothesis("a", 0.9), hypothesis("b", 0.4))))
    assert verified(script) == ["1 commit-0+a", "2 commit-0+b"]
    assert state.base is START
    assert [call for call in script.calls if call.startswith("profile")] == ["profile commit-0"]
    assert conclusion == LEFT


def test_the_best_score_of_a_layer_goes_first():
    script = Script()
    found = (hypothesis("low", 0.2), hypothesis("high", 0.9), hypothesis("middle", 0.5))
    run(script, Scripted(found))
    assert [call.rpartition("+")[2] for call in verified(script)] == ["high", "middle", "low"]


def test_the_budget_of_candidates_ends_the_run():
    layer = Scripted(tuple(hypothesis(name) for name in "abcd"))
    state, conclusion = run(Script(), layer, candidates=2)
    assert len(state.iterations) == 2
    assert conclusion == "stopped after 2 candidates, as the budget says"


def test_an_attempt_that_was_cut_costs_a_later_candidate_never_its_own():
    layer = Scripted(tuple(hypothesis(name) for name in "abcd"))
    assert len(run(Script(cuts=(2,)), layer, candidates=3)[0].iterations) == 2
    assert len(run(Script(cuts=(2,)), layer, candidates=2)[0].iterations) == 2
    assert len(run(Script(cuts=(2, 2)), layer, candidates=4)[0].iterations) == 2
    assert len(run(Script(cuts=(3,)), layer, candidates=3)[0].iterations) == 3


def test_attempts_that_were_cut_are_said_to_be_among_those_that_the_budget_counts():
    layer = Scripted(tuple(hypothesis(name) for name in "abcd"))
    _, one = run(Script(cuts=(2,)), layer, candidates=3)
    _, two = run(Script(cuts=(2, 2)), layer, candidates=4)
    counted = "that ended after a look, without a verdict, counted"
    assert one == f"stopped after 3 candidates, as the budget says: 1 attempt {counted}"
    assert two == f"stopped after 4 candidates, as the budget says: 2 attempts {counted}"


@pytest.mark.parametrize("error", [ToolFailed("git broke"), JournalMismatch("another run's")])
def test_what_says_nothing_about_the_edit_is_no_reason_to_leave_it_out(error):
    with pytest.raises(type(error)):
        run(Script(refused={"a": error}), Scripted((hypothesis("a"),)))


def test_the_budget_of_time_ends_the_run():
    layer = Scripted(tuple(hypothesis(name) for name in "abcd"))
    state, conclusion = run(Script(seconds=1), layer)
    assert len(state.iterations) == 1
    assert conclusion == "stopped: the time budget is spent"


def test_tools_that_failed_twice_end_the_run():
    layer = Scripted(tuple(hypothesis(name) for name in "abcd"))
    script = Script(dict.fromkeys("abcd", Verdict.FAILED))
    state, conclusion = run(script, layer)
    assert [i.verdict for i in state.iterations] == [Verdict.FAILED, Verdict.FAILED]
    assert conclusion == "stopped: the tools failed twice; see the journal"


def test_without_a_hypothesis_there_is_nothing_to_try():
    script = Script()
    state, conclusion = run(script, Scripted(()))
    assert conclusion == "nothing to try: no card of the cookbook matches this stack"
    assert (state.iterations, state.not_tried) == ([], [])
    assert script.calls == ["calibrate", "profile commit-0"]


def test_what_cannot_be_worth_it_is_told_by_reason():
    layer = Scripted(
        (hypothesis("small", 0.001), hypothesis("known"), hypothesis("odd")), unwritable=("odd",)
    )
    script = Script(answered={"known": "known: rejected on 2026-01-01 at abc (below_floor)"})
    state, conclusion = run(script, layer)
    assert conclusion == (
        "nothing worth trying: of the hypotheses, 1 below the noise floor, "
        "1 already answered by earlier runs, 1 that no rewrite can carry out here"
    )
    assert state.not_tried == [
        "known on m: known: rejected on 2026-01-01 at abc (below_floor)",
        "odd on m: the code is not of a shape that the rewrite can change exactly",
        "small on m: its best case, 0.08% of all time, is below the noise: 0.71% after 8 launches",
    ]
    assert (layer.asked, verified(script)) == (["odd"], [])


def test_an_edit_that_may_not_be_committed_is_told_and_the_run_goes_on():
    layer = Scripted((hypothesis("bad", 0.9), hypothesis("good", 0.4)))
    script = Script(
        {"good": Verdict.ACCEPTED}, refused={"bad": InvalidInput("refused", hint="do not")}
    )
    state, _ = run(script, layer)
    assert state.not_tried == ["bad on m: refused"]
    assert [i.card for i in state.iterations] == ["good"]


def test_a_tool_that_breaks_after_a_verdict_ends_the_run_but_loses_nothing():
    layer = Scripted((hypothesis("a", 0.9), hypothesis("b", 0.4)))
    script = Script({"a": Verdict.ACCEPTED}, profiler_breaks_at="commit-0+a")
    state, conclusion = run(script, layer)
    assert [i.verdict for i in state.iterations] == [Verdict.ACCEPTED]
    assert conclusion == "stopped: py-spy broke"


def test_a_tool_that_breaks_before_any_verdict_is_an_error():
    with pytest.raises(ToolFailed, match="py-spy broke"):
        run(Script(profiler_breaks_at="commit-0"), Scripted((hypothesis("a"),)))


def test_layers_are_drawn_from_those_with_something_worth_trying():
    features = Scripted((hypothesis("a"),))
    empty = Scripted((), name=LayerName.SERVER)
    config = Scripted((hypothesis("c", layer=LayerName.CONFIG),), name=LayerName.CONFIG)
    script = Script()
    state, _ = run(script, features, empty, config)
    assert sorted((i.layer, i.card) for i in state.iterations) == [
        (LayerName.CONFIG, "c"),
        (LayerName.FEATURES, "a"),
    ]
    assert script.calls.count("sampled") == 2


def test_the_same_seed_draws_the_same_layers():
    def cards(seed: int) -> list[str]:
        layers = [
            Scripted(tuple(hypothesis(f"{name}{i}", layer=name) for i in range(4)), name=name)
            for name in (LayerName.FEATURES, LayerName.CONFIG)
        ]
        state, _ = run_loop(Script(), layers, START, rng=random.Random(seed), candidates=8)
        return [i.card for i in state.iterations]

    assert cards(3) == cards(3)
    assert {tuple(cards(seed)) for seed in range(8)} != {tuple(cards(3))}


ABC = tuple(hypothesis(name, share) for name, share in (("a", 0.5), ("b", 0.2), ("c", 0.3)))


def test_what_was_accepted_before_goes_first_as_one_candidate_and_the_rest_on_top_of_it():
    script = Script({"a+b": Verdict.ACCEPTED}, proven="ab")
    state, _ = run(script, Scripted(ABC))
    assert verified(script) == ["1 commit-0+a+b", "2 commit-0+a+b+c"]
    assert state.in_place == ["a on m", "b on m"]
    assert state.iterations[1].hypothesis.on_top == ["a on m", "b on m"]


@pytest.mark.parametrize("unwritable", [(), (joined(ABC).card,)])
def test_a_joint_candidate_that_fails_leaves_its_members_to_be_tried_alone(unwritable):
    script = Script({"a": Verdict.ACCEPTED}, proven="abc", unwritable=unwritable)
    state, _ = run(script, Scripted(ABC))
    joint = [] if unwritable else ["commit-0+a+b+c"]
    singles = ["commit-0+a", "commit-0+a+c", "commit-0+a+b"]
    assert [call.partition(" ")[2] for call in verified(script)] == joint + singles
    assert state.in_place == ["a on m"]


def test_a_joint_candidate_is_not_drawn_and_the_report_says_so():
    script = Script({"a+b": Verdict.ACCEPTED}, proven="ab")
    lines: list[str] = []
    script.record = lambda kind, text: lines.append(f"{kind}: {text}")
    run(script, Scripted(ABC[:2]))
    assert lines == [
        "sampled: not drawn: earlier runs accepted each of these here: a on m, b on m; they are "
        "measured again first, as one"
    ]
