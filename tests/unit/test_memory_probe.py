"""First against repeated requests: a memo is seen, caches of the processor are not."""

from __future__ import annotations

import numpy as np
import pytest

from layers.evidence import GateResult
from layers.trial.memory_probe import REPEATS, REQUESTS, ROUNDS, Timings, gate, of_rounds


def timings(
    baseline: float, candidate: float, noise: float, seed: int = 1, requests: int = REQUESTS
) -> Timings:
    """Return times with a repeat effect of each arm (a factor) and log-normal noise."""
    rng = np.random.default_rng(seed)
    made = Timings()
    for _ in range(requests):
        size_s = 0.05 * rng.lognormal(0, 0.5)
        rows = {}
        for arm, effect in (("baseline", baseline), ("candidate", candidate)):
            times = size_s * rng.lognormal(0, noise, 1 + REPEATS)
            rows[arm] = [times[0], *(times[1:] / effect)]
        made.add(rows)
    return made


def judged(made: Timings) -> tuple[str, str, str]:
    found = gate(made, REQUESTS)
    return found.name, found.result.value, found.reason


@pytest.mark.parametrize("effect", [2.0, 5.0, 50.0])
def test_a_memo_of_whole_requests_is_seen(effect):
    assert judged(timings(1.05, effect, 0.1)) == ("memory", "fail", "answers_from_memory")


def test_an_honest_candidate_is_hardly_ever_accused():
    accused = sum(
        gate(timings(1.1, 1.1, noise, seed)).result is GateResult.FAIL
        for noise in (0.02, 0.1, 0.4)
        for seed in range(200)
    )
    assert accused == 0


def decided(baseline: float, candidate: float, noise: float, seed: int) -> str:
    """The reason after as many rounds as are needed, or may be."""
    rounds: list[Timings] = []
    for number in range(ROUNDS):
        rounds.append(timings(baseline, candidate, noise, 1000 * seed + number))
        found = of_rounds(rounds, REQUESTS)
        if found.result is not GateResult.INCONCLUSIVE:
            break
    return found.reason


def test_an_honest_candidate_passes_on_a_noisy_machine_too():
    passed = [decided(1.1, 1.1, 0.6, seed) == "no_memory_seen" for seed in range(60)]
    assert sum(passed) >= 58


def test_a_memo_that_is_hidden_in_noise_is_never_passed():
    """Every second hit is computed again: its typical repeat is faster by the root of a hit."""
    for noise in (0.1, 0.3, 0.6):
        for seed in range(20):
            assert decided(1.0, 1.6, noise, seed) in ("answers_from_memory", "memory_undecided")


def test_no_round_accuses_by_itself():
    """Load that ends while one arm is asked makes its firsts, which come before, slower."""
    disturbed, quiet = timings(1.0, 3.0, 0.1), timings(1.1, 1.1, 0.1, seed=2)
    assert judged(disturbed)[2] == "answers_from_memory"
    for rounds in ([disturbed], [disturbed, quiet], [quiet, disturbed]):
        found = of_rounds(rounds, REQUESTS)
        assert (found.name, found.result.value) == ("memory", "inconclusive")
        assert found.reason == "memory_undecided"
        where = 1 + rounds.index(disturbed)
        assert f"; without round {where} of {len(rounds)} that is not sure" in found.detail


def test_two_rounds_do():
    rounds = [timings(1.0, 1.6, 0.1, seed) for seed in range(2)]
    found = of_rounds(rounds, REQUESTS)
    assert (found.result.value, found.reason) == ("fail", "answers_from_memory")
    assert f"medians of {2 * REQUESTS} requests" in found.detail


def test_what_is_too_noisy_to_be_told_decides_nothing():
    found = gate(timings(1.0, 1.0, 3.0, requests=12), REQUESTS)
    assert (found.name, found.result, found.reason) == (
        "memory",
        GateResult.INCONCLUSIVE,
        "memory_undecided",
    )
    assert "that it is none is not sure" in found.detail


def test_a_memo_that_the_baseline_has_too_is_no_finding():
    assert judged(timings(5.0, 5.0, 0.1)) == ("memory", "pass", "no_memory_seen")


def test_where_nothing_was_asked_nothing_is_claimed():
    found = gate(Timings())
    assert (found.result, found.reason) == (GateResult.PASS, "memory_not_probed")


@pytest.mark.parametrize("requests", [0, 1, 9])
def test_too_few_new_requests_to_see_a_memo_among_decide_nothing(requests):
    found = gate(timings(1.0, 50.0, 0.01, requests=requests), REQUESTS)
    assert (found.name, found.result, found.reason, found.detail) == (
        "memory",
        GateResult.INCONCLUSIVE,
        "requests_not_new",
        f"{requests} requests could be made new and were answered; 10 are needed",
    )
    assert judged(timings(1.0, 50.0, 0.01, requests=10))[2] == "answers_from_memory"


def test_a_memo_is_seen_through_a_few_requests_that_were_held_up():
    made = timings(1.0, 5.0, 0.1)
    made.taken_s["baseline"][3][0] *= 3  # as if the baseline's memo were hit there
    made.taken_s["candidate"][7][1] *= 12
    assert judged(made)[2] == "answers_from_memory"


def test_the_detail_tells_both_effects():
    assert gate(timings(1.0, 4.0, 1e-9, requests=12)).detail == (
        "repeats are 4.00 times as fast as firsts, the baseline's 1.00 times "
        "(medians of 12 requests; p = 0.00024)"
    )
