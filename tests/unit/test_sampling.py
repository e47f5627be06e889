"""Which layer is drawn, and which hypotheses are worth a trial."""

import dataclasses
import math
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layers.base import ChangeClass, Hypothesis, LayerName
from layers.evidence import Verdict
from layers.loop.sampling import Past, Skipped, choose_layer, joined, layer_chances, rank

FEATURES, SERVER, CONFIG = LayerName.FEATURES, LayerName.SERVER, LayerName.CONFIG
SHARES = {FEATURES: 0.6, SERVER: 0.3, CONFIG: 0.1}

BASE = Hypothesis(
    layer=FEATURES,
    card="one-pass-inputs",
    model="features",
    title="Read the inputs in one pass",
    why="look-ups take 40 % of the time",
    share=0.4,
    expected_gain=0.5,
    best_gain=0.8,
    change_class=ChangeClass.EXACT,
    transform="lookups_one_pass",
)


def hypothesis(card, share, expected, best):
    return dataclasses.replace(BASE, card=card, share=share, expected_gain=expected, best_gain=best)


def test_layers_are_drawn_as_often_as_their_chance_says():
    rng = Random(5)
    drawn = Counter(choose_layer(SHARES, [], rng)[0] for _ in range(3000))
    for layer, chance in layer_chances(SHARES, []).items():
        assert abs(drawn[layer] / 3000 - chance) < 4 * math.sqrt(0.25 / 3000)


def test_the_same_seed_draws_the_same_layers_in_any_order_of_shares():
    turned = dict(reversed(SHARES.items()))
    first = [choose_layer(SHARES, [], Random(seed)) for seed in range(20)]
    second = [choose_layer(turned, [], Random(seed)) for seed in range(20)]
    assert first == second


def test_without_a_history_chances_are_shares_and_a_tenth_for_all_alike():
    assert layer_chances(SHARES, []) == {
        SERVER: pytest.approx(0.9 * 0.3 + 0.1 / 3),
        FEATURES: pytest.approx(0.9 * 0.6 + 0.1 / 3),
        CONFIG: pytest.approx(0.9 * 0.1 + 0.1 / 3),
    }


@pytest.mark.parametrize(
    ("verdict", "direction"),
    [
        (Verdict.ACCEPTED, 1),
        (Verdict.REJECTED, -1),
        (Verdict.INCONCLUSIVE, 0),
        (Verdict.FAILED, 0),
    ],
)
def test_what_was_found_moves_the_chance(verdict, direction):
    before = layer_chances(SHARES, [])[SERVER]
    after = layer_chances(SHARES, [Past(SERVER, verdict)])[SERVER]
    assert (after > before) - (after < before) == direction


@given(
    st.dictionaries(st.sampled_from(LayerName), st.floats(0, 1), min_size=1),
    st.lists(st.builds(Past, st.sampled_from(LayerName), st.sampled_from(Verdict)), max_size=60),
)
def test_chances_add_up_and_no_layer_starves(shares, history):
    chances = layer_chances(shares, history)
    assert chances.keys() == shares.keys()
    assert sum(chances.values()) == pytest.approx(1)
    assert min(chances.values()) >= 0.1 / len(shares) - 1e-12


@pytest.mark.parametrize("shares", [{}, {FEATURES: -0.1}, {FEATURES: math.nan}, {CONFIG: math.inf}])
def test_impossible_shares_are_refused(shares):
    with pytest.raises(ValueError, match="layers need shares"):
        choose_layer(shares, [], Random(0))


def test_the_reason_says_the_chance_the_share_and_what_was_found():
    history = [Past(FEATURES, Verdict.ACCEPTED), Past(FEATURES, Verdict.REJECTED)]
    assert choose_layer({FEATURES: 0.4}, history, Random(0)) == (
        FEATURES,
        "features: drawn with a chance of 100% (100% of what is in reach, "
        "1 of 2 earlier candidates accepted)",
    )
    assert choose_layer({FEATURES: 0.0, CONFIG: 0.0}, [], Random(1)) == (
        FEATURES,
        "features: drawn with a chance of 50% (no share measured, not tried yet); config 50%",
    )


def test_hypotheses_are_ranked_by_share_times_gain():
    low, high = hypothesis("low", 0.9, 0.1, 0.2), hypothesis("high", 0.3, 0.5, 0.6)
    tie = hypothesis("a-tie", 0.3, 0.5, 0.6)
    assert rank([low, high, tie], 0.06) == ([tie, high, low], [])


def test_a_best_case_below_the_last_floor_is_never_tried():
    least = 0.06 / math.sqrt(8)
    at, below = hypothesis("at", 1.0, 0.01, least), hypothesis("below", 1.0, 0.01, least * 0.99)
    assert rank([below, at], 0.06) == (
        [at],
        [
            Skipped(
                below,
                "its best case, 2.10% of all time, is below the noise: 2.12% after 8 launches",
                refuted=False,
            )
        ],
    )
    assert rank([below], 0.06, looks=(1, 2, 4, 8, 16))[0] == [below]


def test_an_answered_hypothesis_is_skipped_with_the_reason_given():
    known, new = hypothesis("known", 0.5, 0.5, 0.6), hypothesis("new", 0.1, 0.5, 0.6)
    answered = {"known on features": "rejected on this commit: slower"}
    assert rank([known, new], 0.01, answered=answered) == (
        [new],
        [Skipped(known, "rejected on this commit: slower", refuted=True)],
    )


def test_a_trial_on_other_ground_weighs_less_and_the_reason_says_so():
    full, half = Past(SERVER, Verdict.ACCEPTED), Past(SERVER, Verdict.ACCEPTED, 0.5)
    chances = [layer_chances(SHARES, history)[SERVER] for history in ([], [half], [full])]
    assert chances == sorted(chances)
    assert len(set(chances)) == 3
    _, why = choose_layer({SERVER: 0.3}, [half, Past(SERVER, Verdict.REJECTED)], Random(0))
    assert why.endswith(
        "1 of 2 earlier candidates accepted, which count as 0.5 of 1.5 by age and ground)"
    )


def test_joined_hypotheses_are_named_after_all_and_expect_the_sum():
    first = dataclasses.replace(hypothesis("a", 0.4, 0.5, 0.9), sites=("x:1",))
    second = dataclasses.replace(hypothesis("b", 0.1, 0.2, 0.4), model="ranker", sites=("y:2",))
    joint = joined([second, first])
    assert (joint.model, joint.share, joint.sites) == ("features", 0.5, ("y:2", "x:1"))
    assert (joint.score, joint.best_case) == (pytest.approx(0.22), pytest.approx(0.4))
    assert joint.changes == ("b on ranker", "a on features")
    assert joint.card == joined([first, second]).card
    assert joint.card != joined([first, first]).card


@pytest.mark.parametrize("members", [[], [BASE], [BASE, "config"]])
def test_one_hypothesis_or_two_classes_cannot_be_joined(members):
    made = [
        dataclasses.replace(BASE, change_class=ChangeClass.CONFIG) if m == "config" else m
        for m in members
    ]
    with pytest.raises(ValueError, match="two members or more, of one change class"):
        joined(made)
