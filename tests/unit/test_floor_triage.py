"""Triage: where a measurement lies decides what is done, and the reason says so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layers.floor.floors import Floor, times, utilisation
from layers.floor.layout import Layout
from layers.floor.triage import LEVERS, PAPER, QUESTIONS, Limit, Timeline, combined, service, triage
from layers.floor.walls import bound
from tests.unit.test_floor_case_study import EP, TP, at

TIGHT = Limit(1.05, "a test")
UNTIMED = settings(deadline=None)


def tp16(batch: float = 64) -> Floor:
    return at(batch, TP, latency_s=16.7e-6)


def test_faster_than_the_floor_is_an_error_of_account_constant_or_measurement() -> None:
    found = tp16()
    decision = triage(found, 0.99 * found.times.t_opt_s)
    assert decision.action == "suspect"
    assert [line.partition(":")[0] for line in decision.advice] == [
        "account",
        "constant",
        "measurement",
    ]


def test_below_the_threshold_the_work_stops_and_only_architecture_helps() -> None:
    found = tp16(69)
    decision = triage(found, 1.29 * found.times.t_opt_s)
    assert decision.action == "stop"
    assert decision.advice == LEVERS["kv_bandwidth"]
    assert "cache reads" in decision.reason
    assert "under 1.3 times (the paper's flat threshold)" in decision.reason


@pytest.mark.parametrize(
    ("batch", "layout", "binding"),
    [
        (16, TP, "weight_bandwidth"),
        (69, TP, "kv_bandwidth"),
        (256, EP, "compute"),
        (1, TP, "network"),
    ],
)
def test_the_levers_are_those_of_the_resource_that_binds(
    batch: float, layout: Layout, binding: str
) -> None:
    found = at(batch, layout, latency_s=16.7e-6)
    assert bound(found) == binding
    assert triage(found, 1.1 * found.times.t_opt_s).advice == LEVERS[binding]


def test_between_threshold_and_t_sum_the_overlap_is_what_to_improve() -> None:
    found = tp16()
    middle = (found.times.t_opt_s + found.times.t_sum_s) / 2
    decision = triage(found, middle, TIGHT)
    assert decision.action == "overlap"
    assert decision.quality == pytest.approx(0.5)
    assert "overlap quality 0.50" in decision.reason


def test_outside_of_both_floors_there_is_no_overlap_to_speak_of() -> None:
    found = tp16()
    for measured in (0.99 * found.times.t_opt_s, 1.01 * found.times.t_sum_s):
        assert triage(found, measured).quality is None


def test_the_pair_to_overlap_is_the_longest_and_the_second() -> None:
    networked = at(1, TP, latency_s=16.7e-6)
    assert networked.times.binding == "network"
    decision = triage(networked, 0.99 * networked.times.t_sum_s, TIGHT)
    assert decision.advice[0].startswith("run communication beside HBM")
    computing = tp16(64)
    assert computing.times.compute_s > computing.times.network_s
    decision = triage(computing, 0.99 * computing.times.t_sum_s, TIGHT)
    assert decision.advice[0].startswith("run arithmetic beside reads")


def test_above_t_sum_nsight_systems_is_opened_for_three_questions() -> None:
    found = tp16()
    decision = triage(found, 1.5 * found.times.t_sum_s)
    assert decision.action == "nsight_systems"
    assert decision.advice == QUESTIONS
    assert [word in " ".join(QUESTIONS) for word in ("gaps", "straggler", "exposed")] == [True] * 3


def test_a_looser_threshold_stops_even_above_t_sum() -> None:
    found = at(64, EP)
    measured = 1.01 * found.times.t_sum_s
    assert triage(found, measured).action != "stop"
    assert triage(found, measured, Limit(10.0, "a test")).action == "stop"


def test_gaps_that_explain_the_excess_end_the_escalation_without_a_kernel_profiler() -> None:
    found = tp16()
    measured = found.times.t_sum_s + 0.010
    decision = triage(
        found, measured, timeline=Timeline(gaps_s=0.006, kernels_s={"attention": 1.0})
    )
    assert decision.action == "repair"
    assert "6 ms of the 10 ms" in decision.reason
    assert "CUDA graph" in decision.advice[0]


def test_communication_counts_only_beyond_what_t_sum_exposes_already() -> None:
    found = tp16()
    measured = found.times.t_sum_s + 0.010
    own = found.times.network_s
    seen = {"attention": 1e-6}  # within its budget
    exposed = Timeline(exposed_s=own, kernels_s=seen)
    assert triage(found, measured, timeline=exposed).action == "suspect"
    decision = triage(found, measured, timeline=Timeline(exposed_s=own + 0.008))
    assert decision.action == "repair"
    assert "straggler" in decision.reason


def test_nsight_compute_is_for_a_kernel_class_over_its_own_budget_after_the_others() -> None:
    found = tp16()
    measured = found.times.t_sum_s + 0.010
    attention = times(found.parts["attention"], found.place.hardware).t_opt_s
    experts = times(found.parts["experts"], found.place.hardware).t_opt_s
    spent = {"attention": 2 * attention, "experts": 1.2 * experts}
    decision = triage(found, measured, timeline=Timeline(gaps_s=0.001, kernels_s=spent))
    assert decision.action == "nsight_compute"
    assert "attention takes" in decision.reason
    assert len(decision.advice) == 1
    stricter = {"experts": Limit(1.1, "a test")}
    both = triage(found, measured, timeline=Timeline(kernels_s=spent), budgets=stricter)
    assert [line.partition(":")[0] for line in both.advice] == ["attention", "experts"]


def test_without_the_times_of_kernels_one_question_stays_open_and_nothing_is_doubted() -> None:
    found = tp16()
    measured = found.times.t_sum_s + 0.010
    for timeline, told in ((Timeline(gaps_s=0.003), "3 ms"), (Timeline(), "none")):
        decision = triage(found, measured, timeline=timeline)
        assert decision.action == "nsight_systems"
        assert f"explain {told} of the 10 ms above t_sum" in decision.reason
        assert decision.advice == QUESTIONS[-1:]


def test_a_timeline_that_explains_nothing_is_doubted() -> None:
    found = tp16()
    quick = Timeline(kernels_s={"attention": 1e-6, "experts": 1e-6})
    decision = triage(found, 2 * found.times.t_sum_s, timeline=quick)
    assert decision.action == "suspect"
    assert "no gaps" in decision.reason


@pytest.mark.parametrize(
    ("batch", "layout", "metric"),
    [(64, TP, "MBU"), (256, EP, "MFU"), (1, TP, "link utilisation")],
)
def test_the_metric_is_that_of_the_binding_resource_and_whole_at_t_opt(
    batch: float, layout: Layout, metric: str
) -> None:
    found = at(batch, layout, latency_s=16.7e-6)
    decision = triage(found, float(found.times.t_opt_s))
    assert decision.metric == metric
    assert decision.utilisation == pytest.approx(1.0)


@UNTIMED
@given(st.floats(1e-5, 10.0), st.integers(1, 512))
def test_mfu_over_mbu_is_intensity_over_ridge_whatever_the_time(
    measured: float, batch: int
) -> None:
    found = at(float(batch), EP)
    whole, card = (
        replace(found.whole, flops={"fp8": sum(found.whole.flops.values())}),
        found.place.hardware,
    )
    mfu, mbu = utilisation(whole, card, measured)
    intensity = whole.flops["fp8"] / whole.hbm_bytes
    assert mfu / mbu == pytest.approx(intensity / card.ridge("fp8"))


@UNTIMED
@given(st.floats(0.2, 5.0), st.floats(1.0, 3.0), st.integers(1, 69))
def test_a_slower_step_is_never_nearer_to_its_floor(
    share: float, factor: float, batch: int
) -> None:
    order = ["suspect", "stop", "overlap", "nsight_systems"]
    found, limit = tp16(batch), Limit(factor, "a test")
    measured = share * float(found.times.t_opt_s)
    ranks = [order.index(triage(found, m, limit).action) for m in (measured, 1.1 * measured)]
    assert ranks == sorted(ranks)


def test_a_limit_has_a_fixed_time_for_what_no_floor_accounts_for() -> None:
    found = tp16()
    opt = float(found.times.t_opt_s)
    limit = Limit(1.1, "a test", fixed_s=0.5 * opt)
    assert triage(found, 1.59 * opt, limit).action == "stop"
    assert triage(found, 1.61 * opt, limit).action == "nsight_systems"
    assert "and 9.17 ms" in triage(found, 1.2 * opt, limit).reason


def test_the_threshold_of_a_step_weighs_those_of_its_parts_by_their_time() -> None:
    found = tp16()
    shares = {n: times(a, found.place.hardware).t_opt_s for n, a in found.parts.items()}
    limits = {"attention": Limit(2.0, "measured", 1e-3), "experts": Limit(1.0, "measured", 2e-3)}
    limit = combined(found, limits)
    rest = sum(s for n, s in shares.items() if n not in limits)
    expected = 2.0 * shares["attention"] + shares["experts"] + PAPER.factor * rest
    assert limit.factor == pytest.approx(expected / sum(shares.values()))
    assert limit.fixed_s == pytest.approx(3e-3)
    assert combined(found, {}) == PAPER


def test_an_slo_below_t_opt_is_out_of_reach_of_all_tuning() -> None:
    found = tp16()
    assert service(found, 0.5 * found.times.t_opt_s, p99_s=0.001).verdict == "out of reach"


def test_a_median_shows_no_slo_and_a_99th_percentile_does() -> None:
    found = tp16()
    slo = 2 * float(found.times.t_opt_s)
    assert service(found, slo, p50_s=0.9 * slo).verdict == "not shown"
    assert service(found, slo, p50_s=0.9 * slo, p99_s=slo).verdict == "held"
    tail = service(found, slo, p50_s=0.9 * slo, p99_s=1.5 * slo)
    assert tail.verdict == "missed"
    assert "queueing" in tail.reason
    whole = service(found, slo, p50_s=1.1 * slo, p99_s=1.5 * slo)
    assert whole.verdict == "missed"
    assert "queueing" not in whole.reason
