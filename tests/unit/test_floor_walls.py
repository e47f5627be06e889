"""Walls: which resource binds first as load grows, where layouts cross, and what each yields."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layers.floor.layout import Layout
from layers.floor.model import Part
from layers.floor.modules import Place, SparseIndex
from layers.floor.walls import (
    METRICS,
    MOST_SEQUENCES,
    Fleet,
    Wall,
    Walls,
    bound,
    crossovers,
    curve,
    frontier,
    step_s,
    walls,
)
from tests.unit.test_floor_case_study import EP, FP8, INDEX, TP, deepseek, h20

SMALL = ("tp16", "ep16+dp", "tp8+pp2", "tp8+dp2+ep16")


def fleet(
    layout: Layout,
    index: SparseIndex | None = None,
    latency_s: float = 0.0,
    context: float = 8192.0,
) -> Fleet:
    return Fleet(str(layout), deepseek(index), Place(layout, h20(latency_s), FP8), context)


def by_resource(found: Walls) -> dict[str, Wall]:
    return {wall.resource: wall for wall in found.walls}


def test_tp16_meets_cache_reads_at_64_and_its_memory_at_70_and_never_compute() -> None:
    found = walls(fleet(TP))
    met = by_resource(found)
    assert found.starts == "weight_bandwidth"
    assert found.first == "kv_bandwidth"
    assert met["kv_bandwidth"].sequences == pytest.approx(64, abs=1)
    assert met["kv_capacity"].sequences == pytest.approx(70, abs=1)
    assert met["compute"].sequences is None


def test_attention_by_request_meets_compute_long_before_its_memory() -> None:
    met = by_resource(walls(fleet(EP)))
    assert walls(fleet(EP)).first == "compute"
    assert met["compute"].sequences == pytest.approx(224, abs=8)
    assert 600 < (met["kv_capacity"].sequences or 0) < 700


def test_sparse_attention_puts_the_bandwidth_wall_beyond_memory_which_binds_first_then() -> None:
    found = walls(fleet(TP, INDEX))
    met = by_resource(found)
    assert met["kv_bandwidth"].sequences == pytest.approx(200, abs=3)
    assert not met["kv_bandwidth"].within
    assert found.first == "kv_capacity"


def test_latency_makes_the_network_what_a_single_sequence_is_bound_by() -> None:
    found = walls(fleet(TP, latency_s=16.7e-6))
    assert found.starts == "network"
    assert found.first == "weight_bandwidth"


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("latency_s", [0.0, 16.7e-6])
def test_a_resource_binds_at_its_wall_and_not_one_sequence_before(
    name: str, latency_s: float
) -> None:
    serving = fleet(Layout.parse(name), latency_s=latency_s)
    for wall in walls(serving).walls:
        if wall.resource == "kv_capacity" or wall.sequences is None:
            continue
        assert bound(serving.at(wall.sequences)) == wall.resource
        if wall.sequences > 1:
            assert bound(serving.at(wall.sequences - 1)) != wall.resource


def test_what_is_out_of_reach_does_not_bind_at_the_greatest_load() -> None:
    serving = fleet(TP)
    missing = [wall.resource for wall in walls(serving).walls if wall.sequences is None]
    assert missing == ["compute", "network"]
    assert bound(serving.at(MOST_SEQUENCES)) not in missing


def test_weights_that_do_not_fit_leave_room_for_nothing() -> None:
    serving = fleet(Layout.parse("tp4"))
    assert serving.capacity == 0
    assert walls(serving).first == "kv_capacity"
    assert curve(serving) == []
    assert frontier([serving]) == []
    assert crossovers([serving, fleet(Layout.parse("tp2"))]) == []


def test_layouts_cross_where_the_case_study_has_it() -> None:
    found = {c.metric: c for c in crossovers([fleet(TP), fleet(EP)])}
    assert set(found) == set(METRICS)
    assert found["hbm"].sequences == pytest.approx(30, abs=1)
    assert {c.faster for c in found.values()} == {"ep16+dp16"}


@pytest.mark.parametrize("metric", METRICS)
def test_at_a_crossover_the_other_layout_takes_over(metric: str) -> None:
    serving = {name: fleet(Layout.parse(name), latency_s=16.7e-6) for name in SMALL}
    named = {one.name: one for one in serving.values()}
    found = [c for c in crossovers(list(serving.values())) if c.metric == metric]
    assert found
    for crossing in found:
        winner = named[crossing.faster]
        other = next(named[name] for name in crossing.between if name != crossing.faster)
        at = [step_s(one.at(crossing.sequences), metric) for one in (winner, other)]
        before = [step_s(one.at(crossing.sequences - 1), metric) for one in (winner, other)]
        assert at[0] <= at[1]
        assert before[0] >= before[1]


def test_layouts_that_differ_by_rounding_alone_do_not_cross() -> None:
    roomy = replace(h20(), memory_bytes=960e9)
    one = replace(fleet(TP), place=Place(TP, roomy, FP8))
    split = [Part(f"{p.name} {n}", p.module, p.count) for p in one.model.parts for n in (1, 2)]
    doubled = [replace(part, count=2 * part.count) for part in one.model.parts]
    whole, halves = (
        replace(one, name=name, model=replace(one.model, parts=parts))
        for name, parts in (("whole", doubled), ("halves", split))
    )
    times = [[step_s(f.at(n), "hbm") for n in range(1, 500)] for f in (whole, halves)]
    assert {(a > b) - (a < b) for a, b in zip(*times, strict=True)} == {-1, 0, 1}
    assert min(whole.capacity, halves.capacity) > 500
    assert crossovers([whole, halves]) == []


@pytest.mark.parametrize("metric", ["t_opt", "t_sum"])
def test_no_point_of_any_layout_beats_the_frontier_in_both_rates(metric: str) -> None:
    serving = [fleet(Layout.parse(name), latency_s=16.7e-6) for name in SMALL]
    best = frontier(serving, metric)
    for one, other in itertools.pairwise(best):
        assert one.user_per_s > other.user_per_s
        assert one.device_per_s < other.device_per_s
    for point in (point for one in serving for point in curve(one, metric)):
        assert any(
            b.user_per_s >= point.user_per_s and b.device_per_s >= 0.999999 * point.device_per_s
            for b in best
        )


def test_the_frontier_stays_within_memory() -> None:
    room = {one.name: one.capacity for one in (fleet(TP), fleet(EP))}
    assert all(p.sequences <= room[p.name] for p in frontier([fleet(TP), fleet(EP)]))


def test_replicas_share_the_load_and_add_their_room() -> None:
    half = Place(Layout.parse("tp8+pp2"), h20(), FP8)
    one, two = (Fleet("a", deepseek(), half, 8192.0, n) for n in (1, 2))
    assert two.devices == 32
    assert two.capacity == pytest.approx(2 * one.capacity)
    assert step_s(two.at(64), "t_opt") == step_s(one.at(32), "t_opt")
    assert step_s(two.at(1), "t_opt") == step_s(one.at(1), "t_opt")


@settings(max_examples=20, deadline=None)
@given(st.floats(256.0, 131072.0), st.sampled_from(SMALL))
def test_a_longer_context_never_moves_a_wall_of_the_cache_away(context: float, name: str) -> None:
    near, far = (
        by_resource(walls(fleet(Layout.parse(name), context=tokens)))
        for tokens in (context, 2 * context)
    )
    assert (far["kv_capacity"].sequences or 0) < (near["kv_capacity"].sequences or 0)
    if near["kv_bandwidth"].sequences is not None and far["kv_bandwidth"].sequences is not None:
        assert far["kv_bandwidth"].sequences <= near["kv_bandwidth"].sequences
