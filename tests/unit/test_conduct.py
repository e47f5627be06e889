"""What an arm is to blame for besides its answers, from the blocks of one launch."""

from __future__ import annotations

import pytest

from layers.evidence import Block
from layers.measure.conduct import Fault, leaves_its_cpus, works_while_idle


def block(arm: str, *, idle: float | None = None, server: float | None = None) -> Block:
    return Block(
        arm=arm,
        measure="work",
        launch=1,
        pair=1,
        position=1,
        requests=100,
        completed=100,
        errors=0,
        wall_s=1.0,
        rate=100.0,
        generator_cpu=0.1,
        neighbour_cpu=0.0,
        server_cpu=server,
        idle_cpu=idle,
    )


def launch(candidate_idle: list[float], baseline_idle: list[float]) -> list[Block]:
    """The candidate is idle in the baseline's blocks, and the other way round."""
    return [
        *(block("baseline", idle=cores) for cores in candidate_idle),
        *(block("candidate", idle=cores) for cores in baseline_idle),
    ]


def reason(candidate_idle: list[float], baseline_idle: list[float]) -> str | None:
    fault = works_while_idle(launch(candidate_idle, baseline_idle))
    return fault.reason if fault else None


def test_a_candidate_that_works_while_the_baseline_is_measured_is_to_blame():
    fault = works_while_idle(launch([0.15, 0.16, 0.14], [0.004, 0.005, 0.006]))
    assert fault == Fault(
        "candidate",
        "works_while_idle",
        "uses 0.145 cores more than the baseline while the other one is measured, over 3 blocks",
    )


@pytest.mark.parametrize(
    ("candidate_idle", "baseline_idle"),
    [
        ([0.004, 0.006, 0.005], [0.005, 0.004, 0.006]),  # what an idle server does
        ([0.10, 0.10, 0.10], [0.09, 0.10, 0.10]),  # as busy as the baseline is
        ([0.0, 0.0, 0.0], [0.3, 0.3, 0.3]),  # it removes a thread that was busy
        ([0.15, 0.005, 0.005, 0.005], [0.005] * 4),  # one disturbed block
        ([0.5], [0.0]),  # a single block of each says nothing yet
        ([], []),
    ],
)
def test_what_the_baseline_does_too_is_nobodys_fault(candidate_idle, baseline_idle):
    assert reason(candidate_idle, baseline_idle) is None


def test_work_in_few_blocks_but_at_length_is_found_by_the_mean():
    assert reason([0.9, 0.0, 0.0, 0.0], [0.0] * 4) == "works_while_idle"


def test_blocks_that_nobody_ran_beside_accuse_nobody():
    blocks = [block("baseline"), block("candidate")] * 4
    assert works_while_idle(blocks) is None


def test_more_cpu_than_the_pinned_cores_have_is_a_flight():
    fast = block("candidate", server=1.9)
    assert leaves_its_cpus(fast, [0]) == Fault(
        "candidate", "leaves_its_cpus", "used 1.90 cores, pinned to CPUs [0]"
    )
    assert leaves_its_cpus(fast, [0, 1]) is None
    assert leaves_its_cpus(fast, None) is None
    assert leaves_its_cpus(block("candidate", server=1.07), [0]) is None
    assert leaves_its_cpus(block("candidate"), [0]) is None
