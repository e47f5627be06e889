"""The search for the rate at the SLO, against a queue whose true rate is known."""

from __future__ import annotations

import functools
import heapq
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import betabinom

from layers.errors import Inconclusive
from layers.measure import share_model
from layers.measure.share_model import ShareModel, Window, ratio
from layers.measure.sustained import Budget, search
from tests.grpc_peer import show

WINDOW_S = 5.5
BUDGET = Budget(windows=12, window_s=WINDOW_S)


@dataclass(frozen=True)
class Queue:
    """`servers` take lognormal time per request, first come first served, and drift by window."""

    service_s: float
    slo_s: float
    servers: int = 1
    spread: float = 0.3  # of the logarithm of one service time
    drift: float = 0.02  # of the logarithm of a whole window's service times

    def over(self, rng: np.random.Generator, rate: float, n: int, stall_s: float = 0.0) -> int:
        """Return how many of n exponential arrivals at `rate` are over the SLO, from empty.

        A stall stops the whole server for `stall_s` somewhere in the window.
        """
        arrivals = np.cumsum(rng.exponential(1.0, n))
        arrivals *= n / rate / arrivals[-1]
        logs = self.spread * rng.standard_normal(n) - self.spread**2 / 2
        services = self.service_s * np.exp(logs + self.drift * rng.standard_normal())
        stalled_from = rng.uniform(0, max(0.0, n / rate - stall_s))
        free = [0.0] * self.servers
        over = 0
        for arrival, service in zip(arrivals.tolist(), services.tolist(), strict=True):
            begin = max(arrival, heapq.heappop(free))
            if stalled_from <= begin < stalled_from + stall_s:
                begin = stalled_from + stall_s
            heapq.heappush(free, begin + service)
            over += begin + service - arrival > self.slo_s
        return over

    def true_rate(self, requests: int = 40_000) -> float:
        """Return the rate at which windows have 1 % over the SLO on average, by simulation."""
        low, high = 0.2 * self.servers / self.service_s, 1.1 * self.servers / self.service_s
        for _ in range(9):
            rate = float(np.sqrt(low * high))
            n = BUDGET.requests(rate)
            rng = np.random.default_rng(0)
            share = np.mean([self.over(rng, rate, n) for _ in range(requests // n)]) / n
            low, high = (rate, high) if share < 0.01 else (low, rate)
        return float(np.sqrt(low * high))

    def arm(self, rng: np.random.Generator, stalled: int | None = None, stall_s: float = 0.7):
        """Return a window runner; window number `stalled` meets a stall."""
        seen = iter(range(10_000))

        def run(rate: float, n: int) -> Window:
            stall = stall_s if next(seen) == stalled else 0.0
            return Window(rate, n, self.over(rng, rate, n, stall))

        return run


@functools.cache
def true_rate(queue: Queue) -> float:
    return queue.true_rate()


SLOW = Queue(service_s=0.03, slo_s=0.2, servers=2, spread=0.6, drift=0.03)
FAST = Queue(service_s=0.015, slo_s=0.2, servers=2, spread=0.6, drift=0.03)


def searched(seed: int, *, stall: bool):
    rng = np.random.default_rng(seed)
    stalled = rng.integers(BUDGET.windows, size=2) if stall else [None, None]
    guess = np.exp(0.15 * rng.standard_normal(2)) * 0.7 * 2
    return search(
        {"slow": SLOW.arm(rng, stalled[0]), "fast": FAST.arm(rng, stalled[1])},
        {"slow": guess[0] / SLOW.service_s, "fast": guess[1] / FAST.service_s},
        BUDGET,
        rng,
    )


@pytest.mark.parametrize("stall", [False, True], ids=["quiet", "one stalled window an arm"])
def test_the_search_finds_the_rate_and_its_interval_holds_it(stall):
    truth = {"slow": true_rate(SLOW), "fast": true_rate(FAST)}
    runs = [searched(seed, stall=stall) for seed in range(16)]
    for name, rate in truth.items():
        arms = [run.arms[name] for run in runs]
        errors = np.log([arm.rate / rate for arm in arms])
        covered = np.mean([arm.ci[0] <= rate <= arm.ci[1] for arm in arms])
        half = np.mean([np.log(arm.ci[1] / arm.ci[0]) / 2 for arm in arms])
        show(
            f"{name}: true {rate:.1f}/s, bias {errors.mean():+.1%}, sd {errors.std():.1%}, "
            f"interval +-{half:.1%} holds it in {covered:.0%} of {len(runs)}"
        )
        assert abs(errors.mean()) < 0.08
        assert covered >= 0.8  # 95 % nominal: 12 or fewer of 16 happen once in 1,000
        assert half < 0.35
    gain = truth["fast"] / truth["slow"]
    ratios = [run.ratio("fast", "slow") for run in runs]
    covered = np.mean([r.ci[0] <= gain <= r.ci[1] for r in ratios])
    bias = np.mean(np.log([r.rate / gain for r in ratios]))
    show(f"ratio: true {gain:.2f}, bias {bias:+.1%}, interval holds it in {covered:.0%}")
    assert covered >= 0.8
    assert abs(bias) < 0.08


def test_one_stalled_window_moves_the_estimate_less_than_its_interval():
    rng = np.random.default_rng(5)
    model = ShareModel(40.0)
    for turn in range(12):
        rate = model.rate_for((0.03, 0.01, 0.06)[turn % 3])
        model.update(Window(rate, 240, SLOW.over(rng, rate, 240)))
    before = model.estimate()
    model.update(Window(before.rate * 0.9, 240, 150))
    after = model.estimate()
    show(f"before {before}, after a window of 63 % over {after}")
    assert before.ci[0] < after.rate < before.ci[1]


def test_arms_take_turns():
    calls = []

    def arm(name):
        def run(rate, n):
            calls.append(name)
            return Window(rate, n, round(n * min(1.0, (rate / 50) ** 12 / 100)))

        return run

    search({"a": arm("a"), "b": arm("b")}, {"a": 40.0, "b": 40.0}, BUDGET, np.random.default_rng(1))
    rounds = [set(calls[i : i + 2]) for i in range(0, len(calls), 2)]
    assert rounds == [{"a", "b"}] * 12
    assert len({tuple(calls[i : i + 2]) for i in range(0, len(calls), 2)}) == 2


def test_a_single_arm_can_be_searched_and_the_seed_decides():
    def once():
        rng = np.random.default_rng(11)
        return search({"only": SLOW.arm(rng)}, {"only": 45.0}, BUDGET, rng)

    first, second = once(), once()
    assert first.arms == second.arms
    assert first.windows == second.windows
    assert first.arms["only"].windows == 12


def test_void_windows_are_dropped_and_measured_again():
    rng = np.random.default_rng(2)
    clean, turns = SLOW.arm(rng), iter(range(1000))

    def run(rate, n):
        if next(turns) % 4 == 1:
            return Window(rate, n, n, "noisy_neighbour")
        return clean(rate, n)

    found = search({"x": run}, {"x": 45.0}, BUDGET, rng)
    assert (found.arms["x"].windows, found.arms["x"].void_windows) == (12, 4)
    assert len(found.windows["x"]) == 16


def test_too_many_void_windows_are_inconclusive():
    with pytest.raises(Inconclusive, match=r"7 windows .* void; the last: late_sends"):
        search(
            {"x": lambda rate, n: Window(rate, n, 0, "late_sends")},
            {"x": 45.0},
            BUDGET,
            np.random.default_rng(2),
        )


def test_an_arm_that_misses_the_slo_at_any_rate_is_inconclusive():
    with pytest.raises(Inconclusive, match="x misses the SLO at every rate tried"):
        search(
            {"x": lambda rate, n: Window(rate, n, n)},
            {"x": 45.0},
            BUDGET,
            np.random.default_rng(2),
        )


def test_an_arm_that_never_misses_the_slo_is_inconclusive():
    with pytest.raises(Inconclusive, match="x holds the SLO at every rate tried"):
        search(
            {"x": lambda rate, n: Window(rate, n, 0)},
            {"x": 45.0},
            Budget(windows=3),
            np.random.default_rng(2),
        )


def test_a_wrong_start_is_found_out_of():
    truth = true_rate(SLOW)
    for start in (truth / 2, truth * 2):
        rng = np.random.default_rng(4)
        arm = search({"x": SLOW.arm(rng)}, {"x": start}, BUDGET, rng).arms["x"]
        show(f"true {truth:.1f}/s, started at {start:.1f}/s: {arm}")
        assert arm.ci[0] <= truth <= arm.ci[1]


def test_the_likelihood_is_the_mixture_that_is_documented():
    model = ShareModel(100.0)
    before = model._log_weight.copy()
    model.update(Window(110.0, 200, 7))
    added = model._log_weight - before
    slope, correlation = share_model.SLOPES[3], share_model.CORRELATIONS[2]
    log_rate = model._log_rates[200]
    odds = 0.01 / 0.99 * np.exp(slope * (np.log(110.0) - log_rate))
    share = odds / (1 + odds)
    size = 1 / correlation - 1
    clean = betabinom.pmf(7, 200, share * size, (1 - share) * size)
    assert added[200, 3, 2] == pytest.approx(np.log(0.98 * clean + 0.02 / 201))


def test_ratios_are_reciprocal_and_one_for_the_same_arm():
    a, b = ShareModel(50.0), ShareModel(80.0)
    for model, rate in ((a, 55.0), (b, 120.0)):
        model.update(Window(rate, 300, 3))
        model.update(Window(rate * 1.1, 300, 12))
    forth, back = ratio(b, a), ratio(a, b)
    assert forth.rate == pytest.approx(1 / back.rate)
    assert forth.ci == pytest.approx((1 / back.ci[1], 1 / back.ci[0]))
    assert ratio(a, a).rate == pytest.approx(1.0)


def test_more_windows_narrow_the_interval():
    model, widths = ShareModel(50.0), []
    for _ in range(3):
        for _ in range(5):
            model.update(Window(52.0, 300, 3))
        low, high = model.estimate().ci
        widths.append(high / low)
    assert widths == sorted(widths, reverse=True)
