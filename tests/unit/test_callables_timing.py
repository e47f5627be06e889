"""What an arm is charged for beside its timed calls, from the figures of calls."""

import pytest

from layers.callables.cell import Answer
from layers.callables.timing import Spent, Turn, calls_per_pair, hidden_s


def _turn(
    put_s: float = 2e-4, fetch_s: float = 1e-4, idle_s: float = 0.0, fetch_cpu_s: float = 1e-4
) -> Turn:
    answer = Answer(1e-3, 1e-3, 0.0, b"", None, fetch_s, fetch_cpu_s)
    return Turn(answer, put_s, idle_s, threads=1, processes=1)


def test_what_is_usual_outside_a_call_is_not_charged() -> None:
    turns = [{"baseline": _turn(), "candidate": _turn()} for _ in range(5)]
    assert hidden_s(turns, "baseline") == pytest.approx(0.0)
    assert hidden_s(turns, "candidate") == pytest.approx(0.0)


def test_work_in_one_call_of_many_is_charged() -> None:
    turns = [{"baseline": _turn(), "candidate": _turn()} for _ in range(9)]
    turns.append({"baseline": _turn(), "candidate": _turn(put_s=5e-3)})
    assert hidden_s(turns, "candidate") == pytest.approx(4.8e-3)


def test_work_while_the_other_one_is_called_is_charged() -> None:
    turns = [{"baseline": _turn(idle_s=1e-3), "candidate": _turn()} for _ in range(5)]
    assert hidden_s(turns, "candidate") == pytest.approx(5e-3)
    assert hidden_s(turns, "baseline") == pytest.approx(0.0)


def test_wall_time_of_the_fetch_is_charged_by_its_median() -> None:
    turns = [{"baseline": _turn(), "candidate": _turn(fetch_s=3e-4)} for _ in range(5)]
    assert hidden_s(turns, "candidate") == pytest.approx(1e-3)
    turns = [{"baseline": _turn(), "candidate": _turn()} for _ in range(4)]
    turns.append({"baseline": _turn(), "candidate": _turn(fetch_s=9.0)})
    assert hidden_s(turns, "candidate") == pytest.approx(0.0)


def test_copying_out_more_than_the_reference_is_charged_and_less_is_no_credit() -> None:
    slow = [{"baseline": _turn(), "candidate": _turn(fetch_cpu_s=4e-4)} for _ in range(5)]
    assert hidden_s(slow, "candidate") == pytest.approx(1.5e-3)
    quick = [{"baseline": _turn(fetch_cpu_s=4e-4), "candidate": _turn()} for _ in range(5)]
    assert hidden_s(quick, "candidate") == pytest.approx(0.0)
    assert hidden_s(quick, "baseline") == pytest.approx(0.0)


@pytest.mark.parametrize(
    "candidate",
    [
        _turn(put_s=6e-4, fetch_cpu_s=0.0, fetch_s=0.0),
        _turn(put_s=0.0, fetch_cpu_s=5e-4, fetch_s=5e-4),
    ],
)
def test_what_is_saved_in_one_place_pays_for_nothing_in_another(candidate: Turn) -> None:
    turns = [{"baseline": _turn(), "candidate": candidate} for _ in range(5)]
    assert hidden_s(turns, "candidate") == pytest.approx(5 * 4e-4)


def test_a_turn_uses_what_it_takes_in_computes_and_hands_out() -> None:
    assert _turn().used_s == pytest.approx(2e-4 + 1e-3 + 1e-4)


def test_a_charge_counts_as_time_and_as_cpu_time_of_its_arm_alone() -> None:
    spent = Spent({"baseline": 1.0, "candidate": 1.0}, {"baseline": 0.9, "candidate": 0.9})
    spent.charge("candidate", 0.5)
    assert spent.busy_s == {"baseline": 1.0, "candidate": 1.5}
    assert spent.cpu_s["candidate"] == pytest.approx(1.4)


@pytest.mark.parametrize(("call_s", "calls"), [(1e-5, 32), (4e-3, 10), (1.0, 3)])
def test_a_pair_has_more_calls_the_shorter_they_are(call_s: float, calls: int) -> None:
    assert calls_per_pair(call_s) == calls
