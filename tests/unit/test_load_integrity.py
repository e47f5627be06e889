"""How load tests are fooled, where the defence is pure arithmetic: a queue, counts, two arms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from layers.evidence import Block, GateResult
from layers.measure.blocks import exponential_arrivals
from layers.measure.checks import BlockFacts, Limits, VoidReason, achieved_share, percentiles, voids
from layers.measure.launch import Recorded
from layers.measure.records import OK, RECORD
from layers.measure.sustained import window_of
from layers.trial.load_gate import load_test

SLO_MS = 100.0


def queue(arrivals_s: np.ndarray, service_s: np.ndarray) -> np.ndarray:
    """Return float64[n] seconds at which one server, first come first served, answers."""
    done_s, free_s = np.empty(len(arrivals_s)), 0.0
    for i, (arrival_s, needs_s) in enumerate(zip(arrivals_s, service_s, strict=True)):
        free_s = max(free_s, arrival_s) + needs_s
        done_s[i] = free_s
    return done_s


def facts_of(arrivals_s: np.ndarray, done_s: np.ndarray) -> BlockFacts:
    share = achieved_share(arrivals_s, done_s, SLO_MS)
    return BlockFacts(
        requests=len(arrivals_s),
        errors=0,
        short_outputs=0,
        generator_cores=0.1,
        neighbour_cores=0.0,
        slo_ms=SLO_MS,
        lag_p99_ms=0.5,
        achieved_share=share,
    )


def test_the_schedule_shows_a_stall_that_the_time_of_sending_hides():
    """1,000 requests, one each 10 ms, 2 ms of work; the server stands still for 1 s once."""
    arrivals_s = np.arange(1000) * 0.01
    service_s = np.full(1000, 0.002)
    service_s[500] += 1.0
    from_schedule_ms = (queue(arrivals_s, service_s) - arrivals_s) * 1e3
    as_a_closed_loop_sees_it_ms = service_s * 1e3
    assert percentiles(as_a_closed_loop_sees_it_ms)["p99"] == pytest.approx(2.0)
    assert percentiles(from_schedule_ms)["p99"] > 900
    assert np.count_nonzero(from_schedule_ms > SLO_MS) > 100


@pytest.mark.parametrize(
    ("service_ms", "expected"), [(9.0, []), (9.9, []), (11.0, [VoidReason.BEHIND_OFFERED])]
)
def test_a_server_that_cannot_keep_up_with_its_load_is_behind(service_ms, expected):
    arrivals_s = np.arange(2000) * 0.01
    done_s = queue(arrivals_s, np.full(2000, service_ms / 1e3))
    assert [v.reason for v in voids(facts_of(arrivals_s, done_s), Limits())] == expected


def test_answers_that_never_came_count_against_the_achieved_rate():
    arrivals_s = np.arange(1000) * 0.01
    done_s = queue(arrivals_s, np.full(1000, 0.002))
    assert voids(facts_of(arrivals_s, done_s[:990]), Limits()) == []
    assert [v.reason for v in voids(facts_of(arrivals_s, done_s[:989]), Limits())] == [
        VoidReason.BEHIND_OFFERED
    ]


def test_errors_void_a_block_however_few_and_however_fast_the_rest():
    arrivals_s = np.arange(1000) * 0.01
    fast = facts_of(arrivals_s, arrivals_s + 1e-4)
    assert [v.reason for v in voids(replace(fast, errors=1), Limits())] == [VoidReason.ERRORS]
    assert [v.reason for v in voids(replace(fast, short_outputs=1), Limits())] == [
        VoidReason.SHORT_OUTPUTS
    ]


def test_even_arrivals_hide_a_queue_that_recorded_bursts_show():
    """Same rate, same work: what is over the SLO depends on when requests arrive."""
    rng = np.random.default_rng(1)
    count, rate = 4000, 50.0
    service_s = np.full(count, 0.015)
    gaps_s = rng.gamma(0.15, 1.0, count)
    bursts_s = np.cumsum(gaps_s) * (count / rate / gaps_s.sum())
    even_s = np.arange(1, count + 1) / rate
    random_s = exponential_arrivals(rng, rate, count)
    late = [
        int(np.count_nonzero((queue(arrivals_s, service_s) - arrivals_s) * 1e3 > SLO_MS))
        for arrivals_s in (even_s, random_s, bursts_s)
    ]
    assert late[0] == 0
    assert late[0] < late[1] < late[2]
    assert late[2] > 0.2 * count


def block(**changes: object) -> Block:
    values = {
        "arm": "baseline",
        "measure": "sustained",
        "launch": 1,
        "pair": 1,
        "position": 1,
        "requests": 1000,
        "completed": 1000,
        "errors": 0,
        "wall_s": 10.0,
        "rate": 100.0,
        "offered": 100.0,
        "generator_cpu": 0.1,
        "lag_p99_ms": 0.5,
        "neighbour_cpu": 0.0,
        "over_slo": 1,
    }
    return Block.model_validate(values | changes)


def test_a_window_counts_errors_and_lateness_as_misses_and_never_as_void():
    shed = block(completed=900, errors=100, over_slo=100, void="errors")
    behind = block(over_slo=700, void="behind_offered")
    assert [(w.over, w.void) for w in map(window_of, (shed, behind))] == [(100, None), (700, None)]


@pytest.mark.parametrize(
    "void", ["noisy_neighbour", "generator_bound", "late_sends", "short_outputs"]
)
def test_a_window_that_says_nothing_is_void(void):
    assert window_of(block(void=void)).void == void


class Answers:
    """A block's answers, as a `LoadResult` has them."""

    request_set = "the same for both arms"

    def __init__(self, latencies_ms: np.ndarray) -> None:
        self.records = np.zeros(1000, RECORD)
        self.records["scheduled_s"] = np.arange(1, 1001) * 0.01
        self.records["index"] = np.arange(1000)
        self.records["code"] = OK
        self._latencies_ms = latencies_ms

    def latencies_ms(self) -> np.ndarray:
        return self._latencies_ms


def judged(candidate: Block, latencies_ms: np.ndarray):
    recorded = Recorded()
    recorded.blocks = {"baseline": [block()], "candidate": [candidate]}
    recorded.results = {
        "baseline": [Answers(np.linspace(1, 99, 1000))],
        "candidate": [Answers(latencies_ms)],
    }
    return load_test(recorded, SLO_MS, 100.0, 1000)


def test_refusing_what_would_be_late_wins_no_load_test():
    """Load shedding: the p99 of what was answered halves, and the gate sees the refusals."""
    shed = block(arm="candidate", completed=900, errors=100, over_slo=100)
    test, gate = judged(shed, np.linspace(1, 50, 900))
    assert (gate.result, gate.reason) == (GateResult.FAIL, "more_errors")
    assert (test.candidate.errors, test.candidate.over_slo) == (100, 100)
    assert test.candidate.achieved == pytest.approx(90.0)
    assert "p99" not in test.candidate.latency_ms  # 900 answers do not support one


def test_lateness_wins_no_load_test_however_many_requests_are_completed():
    late = block(arm="candidate", over_slo=60, rate=200.0, wall_s=5.0)
    _, gate = judged(late, np.linspace(1, 99, 1000))
    assert (gate.result, gate.reason) == (GateResult.FAIL, "slo_worse")


def test_an_honest_candidate_passes_the_load_test():
    _, gate = judged(block(arm="candidate"), np.linspace(1, 50, 1000))
    assert (gate.result, gate.reason) == (GateResult.PASS, "slo_not_worse")
