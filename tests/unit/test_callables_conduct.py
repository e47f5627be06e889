"""What a candidate may do outside its timed calls, from the figures of launches."""

import pytest

from layers.callables.conduct import (
    Elsewhere,
    Outside,
    company_gate,
    growth_gate,
    outside_gate,
    reference_gate,
    sizes_gate,
    slowed,
)
from layers.evidence import Gate, GateResult

CALLS, PAIRS = 40, 4
MIB = 1 << 20


def _outside(  # of 40 calls of 5 ms, the same in each of them
    *,
    others_s: float = 0.0,
    threads: int = 0,
    processes: int = 0,
    births: int = 0,
    around_s: float = 0.0,
    taken_in_s: float = 0.0,
    fetch_s: float = 0.0,
    idle_s: float = 0.0,
    gaps_s: float = 0.0,
    grown: tuple[float, ...] = (),
    sizes: tuple[Elsewhere, ...] = (),
) -> Outside:
    return Outside(
        inside_s=[5e-3] * CALLS,
        around_s=[around_s] * CALLS,
        taken_in_s=[taken_in_s] * CALLS,
        fetch_s=[fetch_s] * CALLS,
        idle_s=[idle_s] * CALLS,
        gaps_s=[gaps_s / PAIRS] * PAIRS,
        others_s=[others_s / PAIRS] * PAIRS,
        threads=[threads] * CALLS,
        processes=[processes] * CALLS,
        births=[births] * CALLS,
        grown=list(grown),
        half=CALLS // 2,
        output_bytes=MIB,
        sizes=list(sizes),
    )


def _failed(gate: Gate) -> bool:
    return gate.result is GateResult.FAIL


@pytest.mark.parametrize(
    ("launch", "reason"),
    [
        (_outside(), "alone"),
        (_outside(others_s=0.012), "alone"),  # 3 ms and 5 % of 200 ms are 13 ms
        (_outside(others_s=0.014), "starts_processes"),
        (_outside(processes=1), "starts_processes"),
        (_outside(threads=1), "starts_threads"),
        (_outside(births=1), "starts_processes"),
        (_outside(others_s=-0.1, threads=-1, births=-1), "alone"),  # the reference's own
    ],
)
def test_other_processes_and_threads_fail_beyond_the_slack(launch: Outside, reason: str) -> None:
    found = company_gate([launch, launch])
    assert found.reason == reason
    assert _failed(found) is (reason != "alone")


def test_births_in_some_calls_of_one_launch_may_be_anybodys() -> None:
    some = _outside()
    some.births = [1] * (CALLS // 2) + [0] * (CALLS // 2)
    assert not _failed(company_gate([some, _outside()]))
    assert _failed(company_gate([some, some]))
    assert _failed(company_gate([_outside(births=1)]))


@pytest.mark.parametrize(
    ("launch", "fails"),
    [
        (_outside(), False),
        (_outside(around_s=5e-4), False),  # 40 us and a tenth of 5 ms are 540 us
        (_outside(around_s=6e-4), True),
        (_outside(around_s=6e-4, taken_in_s=1e-3), False),  # and a tenth of 1 ms are 640 us
        (_outside(around_s=7e-4, taken_in_s=1e-3), True),
        (_outside(fetch_s=6e-4, taken_in_s=1e-3), True),
        (_outside(fetch_s=6e-4), True),
        (_outside(fetch_s=-1e-3, around_s=6e-4), True),
        (_outside(idle_s=2.6e-4), False),  # 20 us and a twentieth are 270 us
        (_outside(idle_s=2.8e-4), True),
        (_outside(gaps_s=CALLS * 2.8e-4), True),
        (_outside(gaps_s=CALLS * 1.4e-4, idle_s=1.4e-4), True),
        (_outside(gaps_s=CALLS * 2.8e-4, idle_s=-1e-3), True),
    ],
)
def test_work_outside_calls_fails_in_two_launches_or_where_it_is_a_lot(
    launch: Outside, *, fails: bool
) -> None:
    assert _failed(outside_gate([launch, launch])) is fails
    assert not _failed(outside_gate([launch]))


def test_a_lot_of_work_outside_calls_fails_at_once() -> None:
    assert _failed(outside_gate([_outside(idle_s=1e-3)]))


@pytest.mark.parametrize(
    ("grown", "fails"),
    [
        ((4 * MIB, 4 * MIB), True),
        ((4 * MIB, 0.0), False),  # a table that fills up
        ((0.0, 4 * MIB), False),
        ((1.5 * MIB, 1.5 * MIB), False),  # less than a tenth of each answer
        ((), False),
    ],
)
def test_growth_fails_in_both_halves_of_two_launches(
    grown: tuple[float, ...], *, fails: bool
) -> None:
    launch = _outside(grown=grown)
    assert _failed(growth_gate([launch, launch])) is fails
    assert not _failed(growth_gate([launch, _outside(grown=(0.0, 0.0))]))


SLOW = Elsewhere(900, tells=True, baseline_s=1e-3, candidate_s=2e-3)
AS_FAST = Elsewhere(1100, tells=True, baseline_s=1e-3, candidate_s=1.2e-3)
FAR = Elsewhere(3, tells=False, baseline_s=1e-4, candidate_s=1e-3)


@pytest.mark.parametrize(
    ("sizes", "fails"),
    [
        ([SLOW, SLOW], True),
        ([SLOW, SLOW, AS_FAST], True),
        ([SLOW, SLOW, AS_FAST, AS_FAST], False),
        ([SLOW], False),
        ([AS_FAST, AS_FAST], False),
        ([FAR, FAR, FAR], False),
        ([], False),
    ],
)
def test_a_change_that_is_slower_beside_the_timed_size_fails(
    sizes: list[Elsewhere], *, fails: bool
) -> None:
    found = sizes_gate([_outside(sizes=(size,)) for size in sizes] or [_outside()])
    assert (found.reason == "slower", _failed(found)) == (fails, fails)


def test_short_calls_are_slower_by_what_a_clock_tells() -> None:
    assert not Elsewhere(1, tells=False, baseline_s=2e-5, candidate_s=6e-5).slower
    assert Elsewhere(1, tells=False, baseline_s=2e-5, candidate_s=9e-5).slower


@pytest.mark.parametrize(
    ("beside_s", "ratio", "reason"),
    [
        ([1e-3, 1e-3, 1e-3], 1.5, "reference_undisturbed"),
        ([1.1e-3, 1e-3, 1e-3], 1.05, "reference_undisturbed"),  # one launch alone
        ([1.1e-3, 1.1e-3, 1.1e-3], 1.1, "reference_slowed"),  # that is all of the gain
        ([1.1e-3, 1.1e-3, 1.1e-3], 1.5, "reference_undisturbed"),  # most of it is left
        ([1.4e-3, 1.4e-3, 1.4e-3], 3.0, "reference_slowed"),
        ([1.4e-3, 1.4e-3, 1e-3], 3.0, "reference_undisturbed"),  # a busy moment
        ([9e-4, 9e-4, 9e-4], 1.05, "reference_undisturbed"),
    ],
)
def test_a_gain_that_is_the_references_loss_is_inconclusive(
    beside_s: list[float], ratio: float, reason: str
) -> None:
    found = reference_gate(1e-3, beside_s, ratio, floor=0.01)
    assert found.reason == reason
    assert (found.result is GateResult.PASS) is (reason == "reference_undisturbed")


def test_noise_of_the_machine_is_no_slower_reference() -> None:
    assert slowed(1e-3, [1.05e-3, 1.05e-3], floor=0.01)
    assert not slowed(1e-3, [1.05e-3, 1.05e-3], floor=0.03)
