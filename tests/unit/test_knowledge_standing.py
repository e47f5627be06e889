"""What findings say about trying a card: on which ground, how old, on top of what."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.cards import CookbookCard, Finding
from knowledge.ground import Ground, change_name, differences, split_change, weight
from knowledge.overview import overviews
from knowledge.standing import (
    Expected,
    Standing,
    State,
    expected,
    proven,
    refused_together,
    standing,
)
from knowledge.yamlfile import YamlError, loads
from tests.unit.test_knowledge_refine import HEAD, TODAY, finding

GROUND = Ground("ads", "w1", "xeon", {"triton": "2.51.0", "numpy": "1.26.4"}, TODAY)
REWRITE = loads(HEAD, Path("c.yaml"), CookbookCard)
CONFIG = REWRITE.model_copy(update={"layer": "config", "change_class": "config"})
OTHER = "one-pass on features"


def tried(verdict: str, days_ago: int = 0, **changes: object) -> Finding:
    when = TODAY - timedelta(days=days_ago)
    place = {"workload": "w1", "versions": {"triton": "2.51.1"}, "model": "m", "reason": "r"}
    return finding(**(place | {"verdict": verdict, "date": when} | changes))


def unsure(days_ago: int = 0) -> Finding:
    """All looks were taken and decided nothing."""
    return tried("inconclusive", days_ago, reason="last_look_reached")


def stands(
    *findings: Finding,
    card: CookbookCard = REWRITE,
    ground: Ground = GROUND,
    share: float | None = None,
) -> Standing:
    return standing(card.model_copy(update={"findings": list(findings)}), "m", ground, share)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, []),
        ({"stack": "search"}, ["on search"]),
        ({"workload": "w2"}, ["under another traffic (w2)"]),
        ({"hardware": "epyc"}, ["on epyc"]),
        ({"versions": {"triton": "2.51.9"}}, []),
        ({"versions": {"triton": "2.62.0"}}, ["triton 2.62.0 then, 2.51.0 now"]),
        ({"versions": {"numpy": "2.0"}}, ["numpy 2.0 then, 1.26.4 now"]),
        ({"versions": {"torch": "9"}}, []),
        ({"date": TODAY - timedelta(days=89)}, []),
        ({"date": TODAY - timedelta(days=90)}, ["90 days old"]),
        ({"on_top": [OTHER]}, [f"on top of {OTHER}"]),
        ({"share": 0.2}, []),
        ({"share": 0.1}, ["it was 10.0% of the time and is 24.0% now"]),
    ],
)
def test_a_finding_is_on_the_same_ground_unless_something_is_named(changes, told) -> None:
    assert [*differences(tried("rejected", **changes), GROUND, 0.24).values()] == told


def test_names_of_changes_come_apart_again() -> None:
    assert split_change(change_name("a-card", "on top on")) == ("a-card", "on top on")


@pytest.mark.parametrize(
    ("findings", "state"),
    [
        ([], State.UNTRIED),
        ([tried("accepted")], State.CONFIRMED),
        ([tried("rejected")], State.REFUTED),
        ([tried("failed")], State.UNTRIED),
        ([tried("failed"), tried("rejected", 1)], State.REFUTED),
        ([tried("accepted"), tried("rejected", 1)], State.CONFIRMED),
        ([tried("rejected"), tried("accepted", 1)], State.REFUTED),
        ([tried("inconclusive")], State.OPEN),
        ([unsure()], State.RESTING),
        ([unsure(6)], State.RESTING),
        ([unsure(7)], State.OPEN),
        ([unsure(), tried("accepted", 1)], State.RESTING),
        ([tried("inconclusive"), tried("rejected", 1)], State.REFUTED),
        ([tried("accepted"), tried("inconclusive", 1)], State.CONFIRMED),
        ([tried("rejected", 90)], State.STALE),
        ([tried("rejected", versions={"numpy": "2.0"})], State.STALE),
        ([tried("rejected", hardware="epyc")], State.UNTRIED),
        ([tried("rejected", model="other")], State.UNTRIED),
        ([tried("rejected", model="")], State.REFUTED),
        ([tried("rejected", together=["x on m", "y on m"])], State.UNTRIED),
    ],
)
def test_the_newest_that_decides_on_this_ground_gives_the_state(findings, state) -> None:
    assert stands(*findings).state is state


def test_order_in_the_file_is_only_asked_within_a_day() -> None:
    older, newer = tried("rejected", 3), tried("accepted", 1)
    assert stands(older, newer) == stands(newer, older)


def test_why_says_when_at_which_commit_and_what_has_moved() -> None:
    refuted = stands(tried("rejected", commit="0123456789abcdef", reason="below_noise_floor"))
    assert refuted.why == "rejected on 2026-11-29 at 0123456789ab (below_noise_floor)"
    stale = stands(tried("rejected", 100, versions={"triton": "2.49.0"}))
    assert stale.why == (
        "rejected on 2026-08-21 at abc (r), but that is stale: triton 2.49.0 then, 2.51.0 now; "
        "100 days old"
    )
    resting = stands(unsure(6))
    assert resting.why.endswith("; not again for 1 day on the same ground")


ON_TOP = replace(GROUND, on_top=frozenset({OTHER}))


@pytest.mark.parametrize(
    ("card", "found", "share", "state"),
    [
        # A rewrite saves its share and no more: alone or on top, while the share has not grown.
        (REWRITE, tried("rejected", share=0.2), 0.22, State.REFUTED),
        (REWRITE, tried("rejected", share=0.2), 0.30, State.STALE),
        (REWRITE, tried("rejected", share=0.2), None, State.STALE),
        # What a configuration does depends on where the bottleneck is.
        (CONFIG, tried("rejected", share=0.2), 0.20, State.STALE),
        (CONFIG, tried("rejected", share=0.2, on_top=[OTHER]), 0.20, State.REFUTED),
        # An acceptance alone is none on top, though a growing share takes nothing from it.
        (REWRITE, tried("accepted", share=0.2), 0.20, State.STALE),
        (REWRITE, tried("accepted", share=0.2, on_top=[OTHER]), 0.9, State.CONFIRMED),
    ],
)
def test_alone_and_on_top_of_another_change_are_told_apart(card, found, share, state) -> None:
    assert stands(found, card=card, ground=ON_TOP, share=share).state is state


def test_what_was_found_on_top_rules_over_what_was_found_alone() -> None:
    alone, on_top = tried("rejected", share=0.2), tried("accepted", 5, share=0.2, on_top=[OTHER])
    assert stands(alone, on_top, ground=ON_TOP, share=0.2).state is State.CONFIRMED
    assert stands(alone, on_top, share=0.2).state is State.REFUTED


def test_only_a_newest_acceptance_is_proof_whatever_was_in_place() -> None:
    def proof(*findings: Finding) -> Finding | None:
        return proven(REWRITE.model_copy(update={"findings": list(findings)}), "m", GROUND)

    on_top = tried("accepted", on_top=[OTHER])
    assert proof(on_top) == on_top
    assert proof(tried("rejected"), tried("accepted", 1)) is None
    assert proof(tried("accepted", 90)) is None
    assert proof(tried("accepted", together=["x on m", "a-card on m"])) is None


ABOVE = {"reason": "no_gain_on_top_of_others", "on_top": [OTHER]}


@pytest.mark.parametrize("share", [None, 0.2])
def test_what_was_taken_out_beside_another_change_is_refuted_beside_it_only(share) -> None:
    taken_out = tried("rejected", share=share, **ABOVE)
    assert stands(taken_out, share=0.2).state is State.STALE
    assert stands(taken_out, tried("accepted", 1, share=0.2), share=0.2).state is State.CONFIRMED
    assert stands(taken_out, ground=ON_TOP, share=0.2).state is State.REFUTED


NOW = replace(GROUND, fvec="0.2.0", code={"m": "new"})
SAME = {"fvec": "0.2.0", "code": {"m": "new"}}


@pytest.mark.parametrize(
    ("reason", "changes", "state"),
    [
        ("outputs_differ", SAME, State.REFUTED),
        ("outputs_differ", SAME | {"fvec": "0.1.0"}, State.STALE),
        ("outputs_differ", SAME | {"code": {"m": "old"}}, State.STALE),
        ("build_failed", {}, State.STALE),
        ("below_noise_floor", {"fvec": "0.1.0", "code": {"m": "old"}}, State.REFUTED),
        ("slower", {}, State.REFUTED),
    ],
)
def test_only_too_little_gain_refutes_across_releases_and_changed_code(
    reason, changes, state
) -> None:
    told = stands(tried("rejected", reason=reason, share=0.2, **changes), ground=NOW, share=0.2)
    assert told.state is state


def test_a_stale_refutation_says_that_code_and_release_have_moved() -> None:
    told = stands(tried("rejected", reason="outputs_differ", code={"m": "old"}), ground=NOW)
    assert told.why.endswith("stale: by fvec of an unknown version; of other code of m")


def test_an_acceptance_before_the_code_changed_still_outweighs_an_older_refutation() -> None:
    findings = tried("accepted", 1, code={"m": "old"}), tried("rejected", 9, reason="slower")
    assert stands(*findings, ground=NOW).state is State.CONFIRMED


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        (SAME, True),
        (SAME | {"code": {"m": "old"}}, False),
        (SAME | {"fvec": "0.1.0"}, False),
        ({}, False),
    ],
)
def test_only_the_same_code_and_release_are_proof_for_a_joint_candidate(changes, holds) -> None:
    card = REWRITE.model_copy(update={"findings": [tried("accepted", **changes)]})
    assert (proven(card, "m", NOW) is not None) is holds


@pytest.mark.parametrize(
    ("reason", "code", "refused"),
    [("outputs_differ", "new", True), ("outputs_differ", "old", False), ("slower", "old", True)],
)
def test_a_joint_refutation_looks_at_the_code_of_every_member(reason, code, refused) -> None:
    names = ["a-card on m", "x on n"]
    joint = tried(
        "rejected", reason=reason, together=names, fvec="0.2.0", code={"m": "new", "n": code}
    )
    here = replace(NOW, code={"m": "new", "n": "new"})
    card = REWRITE.model_copy(update={"findings": [joint]})
    assert refused_together(card, frozenset(names), here) is refused


def test_a_finding_of_the_future_decides_nothing_and_moves_no_ground() -> None:
    future = tried(
        "rejected", hardware="xeon", date=date(9999, 12, 31), gain=9.0, ci=(8, 9.5), share=1
    )
    assert stands(future).state is State.UNTRIED
    assert stands(future, tried("accepted", 1)).state is State.CONFIRMED
    assert seen(future) == seen()
    joint = future.model_copy(update={"together": ["a-card on m", "x on m"]})
    card = REWRITE.model_copy(update={"findings": [joint]})
    assert not refused_together(card, frozenset(joint.together), GROUND)
    moved = future.model_copy(update={"hardware": "epyc"})
    card = REWRITE.model_copy(update={"findings": [moved, tried("rejected")]})
    ((known,),) = [told.known for told in overviews([card], TODAY)]
    assert known.standing.state is State.REFUTED


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ("ci: [1.0, -1.0]", "ci.1"),
        ("ci: [1.2, 1.1]", "ci: the lower end comes first"),
        ("ci: [0.0, 1.1]", "ci.0"),
        ("gain: 1e-300", "gain"),
        ("gain: 1.0e+300", "gain"),
        ("gain: 0.0", "gain"),
        ("gain: -1.0", "gain"),
        ("share: 1.0e-200", "share"),
        ("share: 0.0", "share"),
        ("share: 1.01", "share"),
    ],
)
def test_numbers_that_no_measurement_gives_are_refused_with_their_place(lines, place) -> None:
    head = "findings:\n- {date: 2026-01-01, stack: s, commit: c, verdict: rejected, reason: r,\n"
    with pytest.raises(YamlError, match=rf"c.yaml:\d+:\d+: findings.0.{place}"):
        loads(f"{HEAD}{head}   hardware: h, {lines}}}\n", Path("c.yaml"), CookbookCard)


def seen(*findings: Finding, **now: float) -> Expected:
    return expected(REWRITE.model_copy(update={"findings": list(findings)}), "m", GROUND, **now)


def test_without_findings_the_card_says_what_to_expect() -> None:
    assert seen() == Expected(0.5, 0.4, 0, 0.0)
    assert seen(gain=0.1, best=0.3).mean == 0.1
    assert seen(tried("failed"), tried("accepted", gain=2.0)).findings == 0


def test_a_precise_finding_outweighs_the_card() -> None:
    # 1 - 1/1.25 = 20 % of all time, at a share of 50 %: 40 % of it; sd 0.02/1.25/0.5 and 0.1
    found = tried("accepted", gain=1.25, ci=(1.2012, 1.3008), share=0.5)
    sd = 0.1**2 + (0.0203 / 1.25 / 0.5) ** 2
    mean = (0.5 / 0.4**2 + 0.4 / sd) / (1 / 0.4**2 + 1 / sd)
    assert seen(found).mean == pytest.approx(mean, abs=2e-4)
    assert seen(found).findings == 1


def test_a_gain_beyond_the_range_counts_as_its_best_and_a_loss_as_none() -> None:
    great = tried("accepted", gain=9.0, ci=(8.9, 9.1), share=0.1)
    loss = tried("rejected", gain=0.8, ci=(0.79, 0.81), share=0.1)
    assert 0.5 < seen(great).mean <= 0.9
    assert 0.0 <= seen(loss).mean < 0.5


@pytest.mark.parametrize(
    "changes",
    [
        {"date": TODAY - timedelta(days=60)},
        {"hardware": "epyc"},
        {"versions": {"triton": "3.0.0"}},
        {"workload": "w2"},
        {"stack": "search"},
        {"on_top": [OTHER]},
        {"model": "other"},
    ],
)
def test_each_difference_of_the_ground_moves_the_gain_back_towards_the_card(changes) -> None:
    found = {"gain": 1.05, "ci": (1.0, 1.1), "share": 0.5}
    here, there = seen(tried("accepted", **found)), seen(tried("accepted", **(found | changes)))
    assert here.mean < there.mean < 0.5
    assert here.weight > there.weight > 0


GAINS = st.tuples(st.floats(0.01, 100), st.floats(1.0001, 3), st.floats(0.0001, 1))


@given(
    st.lists(
        st.builds(
            lambda g, days, verdict: tried(
                verdict, days, gain=g[0], ci=(g[0] / g[1], g[0] * g[1]), share=g[2]
            ),
            GAINS,
            st.integers(-5, 2000),
            st.sampled_from(["accepted", "rejected", "inconclusive", "failed"]),
        ),
        max_size=12,
    ),
    st.floats(0.001, 1),
)
def test_the_expected_gain_stays_in_the_cards_range_and_in_no_order(findings, share) -> None:
    told = seen(*findings, share=share)
    assert 0 <= told.mean <= REWRITE.gain.best
    assert 0 <= told.weight < 1
    assert told.sd <= seen().sd + 1e-12
    assert seen(*reversed(findings), share=share).mean == pytest.approx(told.mean)
    assert all(0 < weight(f, GROUND, share) <= 1 for f in findings)


def test_dates_of_the_future_do_not_count_more_than_today() -> None:
    assert weight(tried("accepted", -30), GROUND) == weight(tried("accepted"), GROUND) == 1.0
    assert date(2026, 11, 29) == TODAY
