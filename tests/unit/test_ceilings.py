"""What no block can exceed: each ceiling alone, at its edge and beyond."""

from __future__ import annotations

from dataclasses import replace

import pytest

from layers.manifest import FloorSection
from layers.measure import bandwidth
from layers.measure.ceilings import Above, Ceilings, Facts, above, near_floor

MACHINE = Ceilings(copy_bytes_per_s=10e9, link_bytes_per_s=2e9, cores=2)
# 100 requests of 1 MB in a second, on one core, generator at a tenth of one.
HONEST = Facts(
    completed=100,
    wall_s=1.0,
    message_bytes=100_000_000,
    server_cpu_s=0.9,
    generator_cpu_s=0.1,
    fastest_s=0.02,
)


def test_an_honest_block_is_below_every_ceiling():
    assert above(HONEST, MACHINE, HONEST) is None


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"wall_s": 0.04}, "bytes a second through the socket"),
        ({"server_cpu_s": 2.3}, "CPU seconds of the server"),
        (
            {"message_bytes": 1_900_000_000, "server_cpu_s": 0.0},
            "completions a second for the CPU of the server",
        ),
        ({"generator_cpu_s": 0.01}, "completions a second for the CPU of the generator"),
        ({"fastest_s": 0.00005}, "answers a second of the fastest request"),
    ],
)
def test_each_ceiling_refuses_alone_and_tells_the_number(changes, what):
    other = replace(HONEST, generator_cpu_s=0.3)
    broken = above(replace(HONEST, **changes), MACHINE, other)
    assert broken is not None
    assert broken.what == what
    assert broken.seen > broken.limit


def test_the_number_and_the_limit_are_in_one_line():
    broken = above(replace(HONEST, fastest_s=0.00005), MACHINE)
    assert broken == Above("answers a second of the fastest request", 20_000, pytest.approx(1e4))
    assert str(broken) == (
        "answers a second of the fastest request: 2e+04, and no more than 1e+04 is possible"
    )


def test_a_third_of_the_other_arms_generator_time_is_still_possible():
    other = replace(HONEST, generator_cpu_s=0.36)
    assert above(replace(HONEST, generator_cpu_s=0.1), MACHINE, other) is None


def test_a_block_without_answers_has_no_rate_to_refuse():
    assert above(replace(HONEST, completed=0, fastest_s=0.0), MACHINE) is None


def test_far_from_the_floor_is_a_warning_only():
    assert near_floor(HONEST, MACHINE) == (
        "the fastest answer took 20 ms, 200 times what moving its bytes takes at least: "
        "the byte floor bounds little here"
    )
    assert near_floor(replace(HONEST, fastest_s=0.0009), MACHINE) is None


def test_this_machines_bandwidths_are_measured():
    measured = bandwidth.measure(FloorSection())
    assert measured.copy_bytes_per_s > 1e8
    assert measured.link_bytes_per_s > 1e7
    assert measured.cores >= 1


def test_what_a_request_needs_is_measured_where_the_manifest_declares_it():
    assert bandwidth.needs_s(FloorSection()) == {}
    found = bandwidth.needs_s(FloorSection(flops_per_request=1e9, bytes_per_request=1e12))
    assert found.keys() == {"arithmetic", "memory"}
    assert 1e-6 < found["arithmetic"] < 10  # no machine does 1e15 a second, or less than 1e8
    assert 0.1 < found["memory"] < 1e4


def test_bytes_that_a_cache_can_hold_need_not_come_from_memory():
    assert bandwidth.needs_s(FloorSection(bytes_per_request=1.0))["memory"] == 0.0
