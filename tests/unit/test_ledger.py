"""What the launches of a trial took, and what of it a reviewer is told."""

from __future__ import annotations

import pytest

from layers.evidence import ArmCosts, Costs
from layers.measure.intervals import Estimate
from layers.measure.ledger import NOT_HELD, Ledger
from layers.sandbox.base import MIB
from layers.sandbox.cgroups import Memory


def memory(held_mib: float, peak_mib: float | None) -> Memory:
    return Memory(int(held_mib * MIB), None if peak_mib is None else int(peak_mib * MIB))


def ledger(*launches: tuple[tuple[float, float, float], tuple[float, float, float]]) -> Ledger:
    """Launches: of baseline and candidate, seconds to ready, MiB at the begin and at the end."""
    made = Ledger()
    for both in launches:
        for arm, (ready_s, begin, end) in zip(made.taken, both, strict=True):
            made.began(arm, ready_s, memory(begin, None))
            made.ended(arm, memory(end, end + 10))
    return made


def test_costs_are_medians_over_the_launches_of_each_arm():
    made = ledger(
        ((2.0, 100, 110), (3.0, 120, 150)),
        ((2.2, 102, 112), (3.4, 122, 170)),
        ((9.0, 101, 111), (3.2, 900, 160)),
    )
    assert made.costs(Estimate(0.8, (0.7, 0.9), 5)) == Costs(
        launches=3,
        baseline=ArmCosts(
            ready_s=2.2, memory_begin_mib=101, memory_end_mib=111, memory_peak_mib=121
        ),
        candidate=ArmCosts(
            ready_s=3.2, memory_begin_mib=122, memory_end_mib=160, memory_peak_mib=170
        ),
        cpu_ratio=0.8,
        cpu_ci=(0.7, 0.9),
    )


def test_where_nothing_was_loaded_nothing_was_taken():
    assert Ledger().costs() is None
    assert Ledger().warnings() == []


def test_what_not_every_launch_tells_is_not_told():
    made = ledger(((2.0, 100, 110), (2.0, 100, 110)))
    made.began("baseline", 4.0, None)
    made.ended("baseline", None)
    costs = made.costs()
    assert costs is not None
    assert (costs.baseline.memory_end_mib, costs.baseline.memory_peak_mib) == (None, None)
    assert costs.baseline.ready_s == 3.0
    assert costs.candidate.memory_end_mib == 110


@pytest.mark.parametrize(
    ("new", "told"),
    [
        ((2.0, 100, 1000), []),
        ((2.9, 100, 1060), []),  # less than a second and 64 MiB more
        ((6.0, 100, 1000), ["it takes 6.0 s to start, the baseline 2.0 s"]),
        (
            (2.0, 100, 1300),
            [
                "it holds 1,300 MiB of memory, the baseline 1,000 MiB",
                "it held at most 1,310 MiB of memory, the baseline 1,010 MiB",
            ],
        ),
    ],
)
def test_a_reviewer_is_told_where_it_takes_much_more(new, told):
    assert ledger(((2.0, 100, 1000), new)).warnings() == told


def test_a_reviewer_is_told_where_nothing_held_the_other_arm_still():
    made = ledger(((2.0, 100, 110), (2.0, 100, 110)))
    made.held = False
    assert made.warnings() == [NOT_HELD]
