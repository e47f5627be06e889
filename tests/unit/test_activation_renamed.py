"""Signs of functions that the other arm has under other names: nothing new runs, and nothing is gone."""

from __future__ import annotations

from layers.base import Activation
from layers.trial.activation import Shown, signs
from tests.unit.test_activation import FAST, FILE, SLOW, contract, shown, spot


def named(one: Activation, baseline: Shown, new: Shown, *doubles: str) -> tuple[bool | None, str]:
    """Look for a sign of which the other arm does the same under other names."""
    same = {one: frozenset(doubles)} if doubles else {}
    (found,) = signs(contract(one), baseline, new, frozenset({one.subject}), same)
    return found.seen, found.detail


def test_a_function_that_was_renamed_does_not_run_for_the_first_time():
    arms = shown(spot("slow", 0.4)), shown(spot("fast", 0.4))
    assert named(FAST, *arms, f"{FILE}:slow") == (
        False,
        f"on 40.00% of the CPU, but the baseline runs the same code as {FILE}:slow",
    )
    assert named(FAST, *arms)[0] is True


def test_code_that_the_baseline_has_and_does_not_run_may_come_to_run():
    arms = shown(spot("slow", 0.4)), shown(spot("fast", 0.4))
    assert named(FAST, *arms, f"{FILE}:unused")[0] is True


def test_a_body_that_was_put_under_a_name_that_ran_before_is_not_rewritten():
    """Two functions change their names: both are other code than before, and nothing is new."""
    arms = [shown(spot("slow", 0.4), spot("fast", 0.1))] * 2
    assert named(FAST, *arms, f"{FILE}:slow")[0] is False
    assert named(FAST, *arms)[0] is True


def test_a_function_that_was_renamed_is_not_gone():
    baseline, candidate = shown(spot("slow", 0.3)), shown(spot("other", 0.29, file="models/n.py"))
    assert named(SLOW, baseline, candidate, "models/n.py:other") == (
        False,
        "2.9 ms of CPU per request, 3 ms in the baseline; of that 2.9 ms in the same code as "
        "models/n.py:other",
    )
    assert named(SLOW, baseline, candidate)[0] is True


def test_the_same_code_elsewhere_that_takes_no_more_than_before_keeps_nothing_from_going():
    twin = spot("twin", 0.2)
    assert named(SLOW, shown(spot("slow", 0.3), twin), shown(twin), f"{FILE}:twin") == (
        True,
        "0 ms of CPU per request, 3 ms in the baseline",
    )


def test_of_many_doubles_a_few_are_named():
    names = [f"f{number}" for number in range(5)]
    seen, detail = named(
        FAST,
        shown(*(spot(name, 0.1) for name in names)),
        shown(spot("fast", 0.5)),
        *(f"{FILE}:{name}" for name in names),
    )
    assert seen is False
    assert detail.endswith(f"{FILE}:f0, {FILE}:f1, {FILE}:f2 and 2 more")
