"""Sensitivity: what each answer hangs on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from layers.floor.hardware import SCALE_OUT, SCALE_UP, Hardware, Link
from layers.floor.layout import Layout
from layers.floor.model import Model, Part
from layers.floor.modules import Attention, GatedMLP, Place, Step
from layers.floor.precision import Precision
from layers.floor.sensitivity import LATENCY_S, Question, Sensitivity, sensitivity
from tests.unit.test_floor_case_study import EP, FP8, TP, deepseek, h20


def moves(
    layout: Layout, batch: float, latency_s: float = 0.0, **asked: float
) -> dict[str, Sensitivity]:
    place = Place(layout, h20(latency_s), FP8)
    question = Question(deepseek(), Step(batch, 8192.0), place, **asked)
    return {one.name: one for one in sensitivity(question)}


def test_each_uncertain_input_is_varied_alone_over_a_stated_range() -> None:
    found = moves(EP, 64)
    assert {name: (one.low, one.high) for name, one in found.items()} == {
        "message latency": (0.0, LATENCY_S),
        "reserve": (0.05 * 96e9, 0.2 * 96e9),
        "HBM bandwidth": (0.8 * 4e12, 4e12),
        "expert imbalance": (1.0, 2.0),
        "context": (4096.0, 16384.0),
    }


def test_a_stated_latency_is_varied_around_what_the_card_says() -> None:
    found = moves(TP, 1, latency_s=10e-6)["message latency"]
    assert (found.low, found.high) == (5e-6, 20e-6)
    links = found.at_high.floor.place.hardware.links
    assert links[SCALE_OUT].latency_s == 20e-6
    assert links[SCALE_UP].latency_s == 0.0


def test_a_latency_across_nodes_that_only_the_node_has_is_varied_by_itself() -> None:
    links = {SCALE_UP: Link(450e9, 2e-6), SCALE_OUT: Link(25e9)}
    card = replace(h20(), links=links)
    asked = Question(deepseek(), Step(64.0, 8192.0), Place(TP, card, FP8))
    found = {one.name: one for one in sensitivity(asked)}
    across = found["latency across nodes"]
    assert (across.low, across.high) == (0.0, LATENCY_S)
    # Two sums a layer, 61 layers, each one message between the nodes and one on them, at their own latency.
    longer = across.at_high.floor.times.network_s - across.at_low.floor.times.network_s
    assert longer == pytest.approx(2 * 61 * LATENCY_S)
    assert found["message latency"].high == 4e-6
    within = replace(asked, place=Place(Layout.parse("tp8"), card, FP8))
    assert "latency across nodes" not in {one.name for one in sensitivity(within)}


def test_a_single_stream_hangs_on_the_latency_that_nobody_states() -> None:
    found = moves(TP, 1)["message latency"]
    assert found.flips == ("binding",)
    assert [end.told()["binding"] for end in (found.at_low, found.at_high)] == ["hbm", "network"]


def test_the_reserve_moves_room_and_no_time() -> None:
    found = moves(TP, 64)["reserve"]
    low, high = found.at_low.told(), found.at_high.told()
    assert low["t_opt_s"] == high["t_opt_s"]
    assert low["capacity_requests"] > high["capacity_requests"] > 0
    assert found.flips == ()


def test_uneven_experts_cost_compute_and_network_where_experts_are_shared_out() -> None:
    found = moves(EP, 256)["expert imbalance"]
    even, skewed = found.at_low.floor, found.at_high.floor
    assert skewed.whole.flops["fp8"] > even.whole.flops["fp8"]
    assert skewed.whole.flops["bf16"] == even.whole.flops["bf16"]
    assert skewed.whole.net_bytes[SCALE_UP] == pytest.approx(2 * even.whole.net_bytes[SCALE_UP])
    # 255 of 256 tokens cross to the other of two nodes anyway; none crosses twice.
    crossing = 256 / 255 * even.whole.net_bytes[SCALE_OUT]
    assert skewed.whole.net_bytes[SCALE_OUT] == pytest.approx(crossing)
    assert skewed.whole.hbm_bytes == even.whole.hbm_bytes
    assert "expert imbalance" not in moves(TP, 64)


def test_a_decision_that_hangs_on_achievable_bandwidth_is_said_to_flip_and_comes_first() -> None:
    opt = float(
        Question(deepseek(), Step(64.0, 8192.0), Place(TP, h20(), FP8)).answer().floor.times.t_opt_s
    )
    place = Place(TP, h20(), FP8)
    found = sensitivity(Question(deepseek(), Step(64.0, 8192.0), place, measured_s=1.2 * opt))
    flips = [one.flips for one in found]
    assert flips == sorted(flips, key=lambda names: -len(names))
    bandwidth = next(one for one in found if one.name == "HBM bandwidth")
    assert "decision" in bandwidth.flips
    assert bandwidth.at_low.told()["decision"] == "suspect"
    assert bandwidth.at_high.told()["decision"] == "stop"


def test_one_device_with_dense_layers_asks_for_neither_latency_nor_imbalance() -> None:
    parts = [
        Part("attention", Attention(4096, 32, 8, 128, 128), 32),
        Part("feed-forward", GatedMLP(4096, 14336), 32),
    ]
    card = Hardware("card", 80e9, 3.35e12, {"bf16": 989e12})
    question = Question(
        Model("llama", 4096, parts), Step(8.0, 2048.0), Place(Layout(), card, Precision())
    )
    assert {one.name for one in sensitivity(question)} == {"reserve", "HBM bandwidth", "context"}
