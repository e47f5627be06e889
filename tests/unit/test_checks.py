"""Void rules and the percentiles that may be printed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from layers.measure.checks import (
    ENVIRONMENT,
    BlockFacts,
    Limits,
    Void,
    VoidReason,
    achieved_share,
    percentiles,
    voids,
)

LIMITS = Limits()
GOOD_WORK = BlockFacts(
    requests=60, errors=0, short_outputs=0, generator_cores=0.3, neighbour_cores=0.05
)
GOOD_RATE = replace(GOOD_WORK, slo_ms=100.0, lag_p99_ms=1.5, achieved_share=0.995)


def test_good_blocks_break_no_rule():
    assert voids(GOOD_WORK, LIMITS) == []
    assert voids(GOOD_RATE, LIMITS) == []


@pytest.mark.parametrize(
    ("change", "void"),
    [
        ({"errors": 1}, Void(VoidReason.ERRORS, 1, 0)),
        ({"short_outputs": 2}, Void(VoidReason.SHORT_OUTPUTS, 2, 0)),
        ({"requests": 59}, Void(VoidReason.TOO_FEW_REQUESTS, 59, 60)),
        ({"neighbour_cores": 0.21}, Void(VoidReason.NOISY_NEIGHBOUR, 0.21, 0.2)),
        ({"generator_cores": 0.81}, Void(VoidReason.GENERATOR_BOUND, 0.81, 0.8)),
        ({"lag_p99_ms": 5.1}, Void(VoidReason.LATE_SENDS, 5.1, 5.0)),
        ({"achieved_share": 0.98}, Void(VoidReason.BEHIND_OFFERED, 0.98, 0.99)),
    ],
)
def test_each_rule_says_what_was_seen_and_the_limit(change, void):
    assert voids(replace(GOOD_RATE, **change), LIMITS) == [void]


def test_faults_of_the_machine_come_first():
    facts = replace(GOOD_RATE, errors=1, neighbour_cores=1.0, achieved_share=0.5)
    assert [void.reason for void in voids(facts, LIMITS)] == [
        VoidReason.NOISY_NEIGHBOUR,
        VoidReason.ERRORS,
        VoidReason.BEHIND_OFFERED,
    ]


def test_a_void_reads_as_one_line():
    assert str(Void(VoidReason.LATE_SENDS, 5.1234, 5.0)) == "late_sends: 5.123, limit 5"


def test_the_lag_limit_has_a_floor_for_tight_slos():
    assert [LIMITS.lag_ms(slo_ms) for slo_ms in (10.0, 50.0, 200.0)] == [2.5, 2.5, 10.0]


def test_only_faults_of_the_machine_are_the_environments():
    assert sorted(ENVIRONMENT) == [
        *("generator_bound", "late_sends", "memory_pressure", "noisy_neighbour")
    ]


def test_the_achieved_share_does_not_charge_the_last_request_for_its_latency():
    scheduled_s = np.arange(100) * 0.01
    assert achieved_share(scheduled_s, scheduled_s + 0.05, slo_ms=60.0) == 1.0
    assert achieved_share(scheduled_s, scheduled_s * 2, slo_ms=60.0) == 0.53
    assert achieved_share(scheduled_s, np.empty(0), slo_ms=60.0) == 0.0
    assert achieved_share(np.empty(0), np.empty(0), slo_ms=60.0) == 0.0


@pytest.mark.parametrize(
    ("count", "names"),
    [
        (19, []),
        (20, ["p50"]),
        (100, ["p50", "p90"]),
        (999, ["p50", "p90", "p95"]),
        (1_000, ["p50", "p90", "p95", "p99"]),
        (10_000, ["p50", "p90", "p95", "p99", "p99.9"]),
    ],
)
def test_a_percentile_needs_ten_requests_beyond_it(count, names):
    assert list(percentiles(np.arange(count, dtype=np.float64))) == names


def test_percentiles_are_those_of_the_latencies():
    assert percentiles(np.arange(101, dtype=np.float64)) == {"p50": 50.0, "p90": 90.0}
