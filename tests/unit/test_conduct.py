"""What an arm is to blame for besides its answers, from the blocks of one launch."""

from __future__ import annotations

import numpy as np
import pytest

from layers.evidence import ArmLoad, Block, LoadTest, VoidPair
from layers.measure.conduct import (
    Fault,
    dropped,
    leaves_its_cpus,
    neighbours_one_sided,
    void_arms,
    voids_one_sided,
    works_while_idle,
)


def block(
    arm: str, *, idle: float | None = None, server: float | None = None, **changes: object
) -> Block:
    values: dict[str, object] = {
        "arm": arm,
        "measure": "work",
        "launch": 1,
        "pair": 1,
        "position": 1,
        "requests": 100,
        "completed": 100,
        "errors": 0,
        "wall_s": 1.0,
        "rate": 100.0,
        "generator_cpu": 0.1,
        "neighbour_cpu": 0.0,
        "server_cpu": server,
        "idle_cpu": idle,
    }
    return Block.model_validate(values | changes)


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


# --- what was dropped, and what has no name ----------------------------------------------------


def both(old: dict[str, object], new: dict[str, object]) -> dict[str, Block]:
    return {"candidate": block("candidate", **new), "baseline": block("baseline", **old)}


def test_a_pair_is_void_for_the_reason_of_each_of_its_blocks():
    assert void_arms(both({}, {})) == {}
    noisy, late = {"void": "noisy_neighbour"}, {"void": "late_sends"}
    assert void_arms(both(late, {})) == {"baseline": "late_sends"}
    assert void_arms(both(late, noisy)) == {
        "candidate": "noisy_neighbour",
        "baseline": "late_sends",
    }


@pytest.mark.parametrize(
    ("old", "new", "void"),
    [
        ({"faults_per_s": 60.0}, {"faults_per_s": 5.0}, {"baseline": "memory_pressure"}),
        ({"faults_per_s": 5.0}, {"faults_per_s": 60.0}, {"candidate": "memory_pressure"}),
        ({"memory_stalled": 0.03}, {"memory_stalled": 0.0}, {"baseline": "memory_pressure"}),
        ({"faults_per_s": 9000.0}, {"faults_per_s": 9010.0}, {}),  # a table mapped from a disk
        ({"faults_per_s": 40.0}, {}, {}),
        ({"faults_per_s": 60.0, "void": "late_sends"}, {}, {"baseline": "late_sends"}),
    ],
)
def test_an_arm_that_waits_for_memory_where_the_other_does_not_voids_the_pair(old, new, void):
    assert void_arms(both(old, new)) == void


def test_what_was_dropped_is_told_with_what_it_would_have_said():
    blocks = both({"rate": 80.0}, {"rate": 60.0, "void": "noisy_neighbour"})
    assert dropped(blocks, void_arms(blocks)) == VoidPair(
        launch=1,
        pair=1,
        measure="work",
        arms=["candidate"],
        reason="noisy_neighbour",
        throughput_ratio=0.75,
        requests=100,
    )
    tail = {"measure": "tail", "over_slo": 9, "void": "late_sends"}
    blocks = both(tail | {"over_slo_in_time": 2}, tail | {"over_slo_in_time": 7})
    assert dropped(blocks, void_arms(blocks)) == VoidPair(
        launch=1,
        pair=1,
        measure="tail",
        arms=["baseline", "candidate"],
        reason="late_sends",
        requests=100,
        over_slo_in_time=(2, 7),
    )


def void(
    *arms: str, reason: str = "noisy_neighbour", slow: tuple[int, int] | None = None
) -> VoidPair:
    return VoidPair(
        launch=1,
        pair=1,
        measure="tail" if slow else "work",
        arms=list(arms),
        reason=reason,
        requests=250,
        over_slo_in_time=slow,
    )


def test_voids_of_a_noisy_machine_take_no_side():
    old, new = void("baseline"), void("candidate")
    assert voids_one_sided([], None) is None
    assert voids_one_sided([new] * 6, None) is None  # one launch drops no more
    assert voids_one_sided([new] * 14 + [old] * 6, None) is None
    assert voids_one_sided([old] * 40, None) is None  # nothing that the candidate gains by
    assert voids_one_sided([void("baseline", "candidate")] * 40, None) is None


def test_a_candidate_whose_own_blocks_are_void_again_and_again_is_undecided():
    sided = voids_one_sided([void("candidate")] * 14 + [void("baseline")], None)
    assert sided == "only the candidate's block was void 14 times, only the baseline's 1 times"


def load_test(old: int, new: int) -> LoadTest:
    arms = [
        ArmLoad(
            requests=1000,
            offered=100.0,
            achieved=100.0,
            errors=0,
            over_slo=over,
            latency_ms={},
            lag_p99_ms=0.1,
        )
        for over in (old, new)
    ]
    return LoadTest(
        slo_p99_ms=250.0,
        rate=100.0,
        baseline=arms[0],
        candidate=arms[1],
        over_slo_difference=(new - old) / 1000,
        over_slo_ci=(-0.01, 0.01),
        p99_ratio=None,
        p99_ci=None,
        outputs_compared=1000,
    )


def test_a_stall_whose_answers_delayed_the_sends_counts_all_the_same():
    late = void("candidate", reason="late_sends", slow=(0, 105))
    assert voids_one_sided([late], load_test(1, 1)) == (
        "with the 1 segments that late sends voided, 106 of 1250 requests of the candidate are over "
        "the SLO, and 1 of the baseline's"
    )


@pytest.mark.parametrize(
    "dropped_pair",
    [
        void("candidate", reason="late_sends", slow=(0, 4)),  # what was on its way when it began
        void("candidate", reason="late_sends", slow=(105, 105)),  # both arms stood still
        void("candidate", reason="noisy_neighbour", slow=(0, 105)),
    ],
)
def test_segments_that_the_machine_spoiled_accuse_nobody(dropped_pair):
    assert voids_one_sided([dropped_pair], load_test(1, 1)) is None
    assert voids_one_sided([dropped_pair], None) is None


def pairs_with(old: list[float], new: list[float]) -> list[dict[str, Block]]:
    return [both({"neighbour_cpu": a}, {"neighbour_cpu": b}) for a, b in zip(old, new, strict=True)]


def test_neighbours_that_come_with_the_baseline_alone_leave_a_gain_undecided():
    rng = np.random.default_rng(1)
    old, new = 0.15 + rng.normal(0, 0.01, 8), rng.uniform(0.01, 0.03, 8)
    sided = neighbours_one_sided(pairs_with(old.tolist(), new.tolist()))
    assert sided is not None
    assert sided.startswith("neither arm used 0.1")
    assert sided.endswith("over 8 pairs: who did is not known")


def test_neighbours_that_come_and_go_take_no_side():
    rng = np.random.default_rng(2)
    seen = 0
    for _ in range(500):  # bursts on half of the blocks, up to what voids one
        old, new = (rng.uniform(0, 0.2, 8) * (rng.random(8) < 0.5) for _ in range(2))
        seen += neighbours_one_sided(pairs_with(old.tolist(), new.tolist())) is not None
    assert seen <= 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([0.15] * 5, [0.0] * 5),  # too few to say
        ([0.025] * 8, [0.01] * 8),  # what a stack makes the kernel do besides
        ([0.0] * 8, [0.15] * 8),  # it slowed the candidate
        ([0.15] * 8, [0.15] * 8),
        ([], []),
    ],
)
def test_neighbours_of_both_arms_or_of_few_pairs_are_nobodys(old, new):
    assert neighbours_one_sided(pairs_with(old, new)) is None
