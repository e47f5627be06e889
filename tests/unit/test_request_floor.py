"""The floor of one request, and what a measured one asks for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layers.measure import request_floor
from layers.measure.ceilings import Ceilings, Facts, above

MACHINE = Ceilings(copy_bytes_per_s=10e9, link_bytes_per_s=2e9, cores=2)
NEEDS = replace(MACHINE, needs_s={"arithmetic": 0.004, "memory": 0.001})


def test_each_resource_takes_its_own_time():
    found = request_floor.times(8_000_000, NEEDS)
    assert found.network_s == pytest.approx(0.002)  # by the links of both cores
    assert (found.compute_s, found.hbm_s) == (0.004, 0.001)
    assert found.t_opt_s == pytest.approx(0.004)
    assert found.t_sum_s == pytest.approx(0.007)
    assert found.binding == "compute"


@pytest.mark.parametrize(
    ("measured_s", "action", "says"),
    [
        (0.0039, "suspect", "nothing is faster than its floor"),
        (0.0051, "stop", "under 1.3 times the arithmetic's time"),
        (0.0060, "profile", "within the 7 ms that all resources take one after another"),
        (0.0270, "profile", "no resource accounts for 20 ms of it"),
    ],
)
def test_where_a_request_lies_decides_what_is_done(measured_s, action, says):
    found = request_floor.triage(
        request_floor.times(8_000_000, NEEDS), measured_s, 1.3, declared=True
    )
    assert found.action == action
    assert says in found.reason
    assert found.ratio == pytest.approx(measured_s / 0.004)
    assert found.resources == {"memory": 0.001, "arithmetic": 0.004, "link": 0.002}


def test_messages_alone_bound_little_and_that_is_said():
    found = request_floor.triage(request_floor.times(8_000, MACHINE), 0.027, 1.3, declared=False)
    assert found.action == "profile"
    assert found.reason.endswith("the floor of the manifest can say more")
    assert found.resources == {"link": pytest.approx(2e-6)}
    assert found.binding == "link"


def test_a_large_ratio_reads_as_a_number():
    found = request_floor.triage(request_floor.times(40_000, MACHINE), 0.0173, 1.3, declared=False)
    assert found.reason.startswith("a request takes 17.3 ms, 1,730 times its floor of 10 us")


def test_a_block_faster_than_the_declared_floor_is_refused():
    facts = Facts(
        completed=1000,
        wall_s=2.0,
        message_bytes=1000,
        server_cpu_s=2.0,
        generator_cpu_s=0.1,
        fastest_s=0.01,
    )
    broken = above(facts, NEEDS)
    assert broken is not None
    assert broken.what == "completions a second, by the manifest's floor"
    assert (broken.seen, broken.limit) == (500, pytest.approx(250))
    assert above(replace(facts, wall_s=4.01), NEEDS) is None
    assert above(facts, MACHINE) is None


@given(
    size=st.floats(1, 1e9),
    memory=st.floats(0, 1),
    arithmetic=st.floats(0, 1),
    measured_s=st.floats(1e-9, 1e3),
    stop_at=st.floats(1, 10),
)
def test_every_measurement_has_one_place(size, memory, arithmetic, measured_s, stop_at):
    machine = replace(MACHINE, needs_s={"memory": memory, "arithmetic": arithmetic})
    found = request_floor.triage(
        request_floor.times(size, machine), measured_s, stop_at, declared=True
    )
    assert found.t_opt_s <= found.t_sum_s * (1 + 1e-12)
    assert found.t_sum_s <= 3 * found.t_opt_s * (1 + 1e-12)
    assert (found.action == "suspect") == (found.ratio < 1)
    assert (found.action == "stop") == (1 <= found.ratio < stop_at)
