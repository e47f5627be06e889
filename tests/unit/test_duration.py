"""How long parts of a run take, by its own calibration; and budgets that hold none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from layers.errors import InvalidInput, Location
from layers.loop import duration
from layers.loop.instruments import TOTAL_BUDGET

QUICK = duration.needs(35.0, 38.0, TOTAL_BUDGET)


def test_the_example_needs_about_what_it_was_seen_to_take():
    assert QUICK.candidate_s == pytest.approx(5 * 35 + 2 * 1000 / 38)
    assert QUICK.reserved_s == pytest.approx(35 + 160 + 2 * 1000 / 38 + 20)
    assert 7 < QUICK.sum_s / 60 < 9


def test_a_stack_that_starts_slowly_needs_more_for_each_fresh_start():
    slow = duration.needs(135.0, 38.0, TOTAL_BUDGET)
    assert slow.candidate_s - QUICK.candidate_s == pytest.approx(5 * 100)
    assert slow.reserved_s - QUICK.reserved_s == pytest.approx(100)


def test_a_low_recorded_rate_takes_long_to_send():
    rare = duration.needs(35.0, 2.0, TOTAL_BUDGET)
    assert rare.candidate_s - QUICK.candidate_s == pytest.approx(2 * 1000 * (1 / 2 - 1 / 38))
    assert rare.reserved_s == pytest.approx(35 + 2 * 10 * 30 + 2 * 1000 / 2 + 20)


def test_a_budget_below_the_end_of_any_run_is_refused_with_the_numbers():
    manifest = Location(Path(".github/fvec.yml"))
    with pytest.raises(InvalidInput) as caught:
        duration.check(3.0, TOTAL_BUDGET, manifest)
    assert caught.value.message == (
        ".github/fvec.yml: a budget of 3 minutes is too small to try anything: the end of a run "
        "alone, total and publishing, takes 3.0 minutes or more"
    )
    assert caught.value.hint is not None
    assert "--budget" in caught.value.hint
    duration.check(3.01, TOTAL_BUDGET, None)


def test_why_nothing_more_was_begun_is_said_in_minutes():
    assert duration.told(8.0, 300.0, duration.Needs(228.0, 267.6)) == (
        "5.0 of 8 minutes are over, and by its calibration a candidate takes 3.8 here, the total and "
        "the publishing 4.5"
    )
