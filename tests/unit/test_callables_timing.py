"""What a candidate may do outside its timed calls, from the figures of launches."""

import pytest

from layers.callables.cell import Answer
from layers.callables.timing import Outside, Turn, company_gate, hidden_s
from layers.evidence import GateResult

CALLS, PAIRS = 40, 4


def _outside(others_s: float = 0.0, threads: int = 0, processes: int = 0) -> Outside:
    """Return a launch of 40 calls of 5 ms with `threads` and `processes` after every one."""
    return Outside(
        inside_s=[5e-3] * CALLS,
        around_s=[0.0] * CALLS,
        idle_s=[0.0] * CALLS,
        others_s=[others_s / PAIRS] * PAIRS,
        threads=[threads] * CALLS,
        processes=[processes] * CALLS,
    )


@pytest.mark.parametrize(
    ("launch", "reason"),
    [
        (_outside(), "alone"),
        (_outside(others_s=0.012), "alone"),  # 3 ms and 5 % of 200 ms are 13 ms
        (_outside(others_s=0.014), "starts_processes"),
        (_outside(processes=1), "starts_processes"),
        (_outside(threads=1), "starts_threads"),
        (_outside(others_s=-0.1, threads=-1), "alone"),  # the reference's own
    ],
)
def test_other_processes_and_threads_fail_beyond_the_slack(launch: Outside, reason: str) -> None:
    found = company_gate([launch, launch])
    assert found.reason == reason
    assert found.result is (GateResult.PASS if reason == "alone" else GateResult.FAIL)


def _turn(outside_s: float, fetch_s: float = 1e-4, idle_s: float = 0.0) -> Turn:
    answer = Answer(1e-3, 1e-3, 0.0, b"", None, fetch_s, 1e-4)
    return Turn(answer, outside_s, idle_s, threads=1, processes=1)


def test_what_is_usual_outside_a_call_is_not_charged() -> None:
    turns = [{"baseline": _turn(2e-4), "candidate": _turn(2e-4)} for _ in range(5)]
    assert hidden_s(turns, "baseline") == pytest.approx(0.0)
    assert hidden_s(turns, "candidate") == pytest.approx(0.0)


def test_work_in_one_call_of_many_is_charged() -> None:
    turns = [{"baseline": _turn(2e-4), "candidate": _turn(2e-4)} for _ in range(9)]
    turns.append({"baseline": _turn(2e-4), "candidate": _turn(5e-3)})
    assert hidden_s(turns, "candidate") == pytest.approx(4.8e-3)


def test_work_while_the_other_one_is_called_is_charged() -> None:
    turns = [{"baseline": _turn(2e-4, idle_s=1e-3), "candidate": _turn(2e-4)} for _ in range(5)]
    assert hidden_s(turns, "candidate") == pytest.approx(5e-3)
    assert hidden_s(turns, "baseline") == pytest.approx(0.0)


def test_wall_time_of_the_fetch_is_charged_by_its_median() -> None:
    turns = [{"baseline": _turn(2e-4), "candidate": _turn(2e-4, fetch_s=3e-4)} for _ in range(5)]
    assert hidden_s(turns, "candidate") == pytest.approx(1e-3)
    turns = [{"baseline": _turn(2e-4), "candidate": _turn(2e-4)} for _ in range(4)]
    turns.append({"baseline": _turn(2e-4), "candidate": _turn(2e-4, fetch_s=9.0)})
    assert hidden_s(turns, "candidate") == pytest.approx(0.0)
