"""The case study of Floor-First Triage (2026): DeepSeek-V3.2 on 16 H20, from declared modules alone.

Assumptions that reproduce it: 14 GB of 96 GB reserved, all weights FP8, latents in BF16, 8,192 tokens of context, one
latency a collective across nodes. The paper states neither reserve nor latency.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from layers.floor.account import Account
from layers.floor.floors import Floor, floor, total
from layers.floor.hardware import SCALE_OUT, SCALE_UP, Hardware, Link
from layers.floor.layout import Layout, exchange
from layers.floor.model import Model, Part
from layers.floor.modules import (
    Embedding,
    GatedMLP,
    Head,
    LatentAttention,
    MixtureOfExperts,
    Place,
    SparseIndex,
    Step,
)
from layers.floor.precision import Precision, bytes_of
from layers.floor.walls import Fleet, crossovers

INDEX = SparseIndex(heads=64, width=128, top_k=2048)
FP8 = Precision("fp8", "fp8", "bf16", "bf16", "fp8", "fp8", "fp8", "bf16")
TP, EP = Layout.parse("tp16"), Layout.parse("ep16+dp")
PEAKS = {"fp8": 296e12, "bf16": 148e12}


def h20(latency_s: float = 0.0, reserve: float = 14e9) -> Hardware:
    links = {SCALE_UP: Link(450e9), SCALE_OUT: Link(25e9, latency_s)}
    return Hardware("h20", 96e9, 4e12, PEAKS, links, 8, reserve_bytes=reserve)


def deepseek(index: SparseIndex | None = None) -> Model:
    attention = LatentAttention(7168, 128, 1536, 512, 64, 128, 128, index)
    parts = [
        Part("embedding", Embedding(7168, 129280), 1),
        Part("attention", attention, 61),
        Part("dense feed-forward", GatedMLP(7168, 18432), 3),
        Part("experts", MixtureOfExperts(7168, 2048, 256, 8, 2048), 58),
        Part("head", Head(7168, 129280), 1),
    ]
    return Model("deepseek", 7168, parts)


def at(batch: float, layout: Layout, index: SparseIndex | None = None, **card: float) -> Floor:
    return floor(deepseek(index), Step(batch, 8192.0), Place(layout, h20(**card), FP8))


def test_the_ridges_are_74_and_590() -> None:
    h100 = Hardware("h100", 80e9, 3.35e12, {"fp8": 1979e12})
    assert h20().ridge("fp8") == pytest.approx(74.0)
    assert h100.ridge("fp8") == pytest.approx(590.7, abs=0.1)


def test_the_model_has_671_billion_parameters() -> None:
    assert deepseek().parameters() == pytest.approx(671.0e9, rel=1e-3)
    assert deepseek().active_parameters() == pytest.approx(37e9, rel=0.02)


def test_memory_holds_about_70_and_about_644_sequences() -> None:
    assert at(1, TP).most_sequences == pytest.approx(69.5, abs=0.5)
    # Weights of the indexer count, its keys do not: the one reading under which 644 comes out.
    whole = at(1, EP, INDEX).whole
    room = 96e9 - 14e9 - whole.resident_bytes
    assert 16 * room / (8192 * 61 * 576 * 2) == pytest.approx(644, abs=1)


def test_one_layout_reads_less_at_small_batches_and_the_other_at_large_ones() -> None:
    times = {batch: (at(batch, TP).times, at(batch, EP).times) for batch in (8, 24, 30, 64)}
    assert times[24][0].hbm_s < times[24][1].hbm_s
    assert times[30][0].hbm_s > times[30][1].hbm_s
    cache = [_cache(at(64, layout)) for layout in (TP, EP)]
    weights = [at(64, x).whole.hbm_bytes - read for x, read in zip((TP, EP), cache, strict=True)]
    assert weights[1] / weights[0] == pytest.approx(1.44, abs=0.03)  # "slightly worse"
    assert cache[0] == pytest.approx(weights[0], rel=0.02)  # the cache as much as the weights


def _cache(found: Floor) -> float:
    group = found.step.batch / found.place.layout.dp
    return float(group * found.step.context * found.whole.cache_bytes_per_token)


def test_a_single_stream_is_2_4_times_faster_only_with_the_message_term() -> None:
    assert at(1, EP).times.hbm_s / at(1, TP).times.hbm_s > 4.6
    with_messages = [at(1, layout, latency_s=16.7e-6).times.t_opt_s for layout in (EP, TP)]
    assert with_messages[0] / with_messages[1] == pytest.approx(2.4, abs=0.05)


def test_the_compute_wall_of_tp16_is_out_of_reach() -> None:
    for batch in (64, 1024, 1e6):
        times = at(batch, TP).times
        assert times.compute_s < 0.55 * times.hbm_s


def test_sparse_attention_takes_the_bandwidth_wall_and_leaves_the_capacity_wall() -> None:
    dense, sparse = at(64, TP), at(64, TP, INDEX)
    assert sparse.whole.hbm_bytes < 0.7 * dense.whole.hbm_bytes
    assert sparse.most_sequences < dense.most_sequences


def test_attention_by_request_binds_on_compute() -> None:
    assert at(128, EP).times.binding == "hbm"
    assert at(256, EP).times.binding == "compute"
    heads = 128
    intensity = 2 * heads * (2 * 512 + 64) / (576 * 2)
    assert intensity == pytest.approx(242, abs=1)
    assert intensity > h20().ridge("bf16")


class OncePerDevice(MixtureOfExperts):
    """Experts whose tokens cross to the other node once for each device there that has one of theirs."""

    def _moved(self, step: Step, place: Place) -> Account:
        layout, precision = place.layout, place.precision
        if layout.ep == 1:
            return super()._moved(step, place)
        copies = layout.ep * (1 - (1 - 1 / layout.ep) ** self.top_k)
        elements = place.tokens(step) * copies * self.hidden
        ways = (precision.dispatched, precision.activations)
        return total(exchange(elements * bytes_of(w), layout.ep, place.hardware) for w in ways)


def test_no_figure_of_the_paper_hangs_on_how_often_a_token_crosses_between_the_nodes() -> None:
    """docs/floor.md says so: the crossing by t_sum alone moves, from 26 sequences to 28."""
    device = OncePerDevice(7168, 2048, 256, 8, 2048)
    parts = [
        replace(part, module=device) if part.name == "experts" else part
        for part in deepseek().parts
    ]
    counted = replace(deepseek(), parts=parts)
    found: list[dict[str, float]] = []
    for model in (deepseek(), counted):
        fleets = [Fleet(str(one), model, Place(one, h20(), FP8), 8192.0) for one in (TP, EP)]
        loads = {c.metric: float(c.sequences) for c in crossovers(fleets)}
        alone = [
            floor(model, Step(1.0, 8192.0), Place(one, h20(16.7e-6), FP8)).times.t_opt_s
            for one in (EP, TP)
        ]
        room = {f"room {fleet.name}": fleet.capacity for fleet in fleets}
        found.append(loads | room | {"single stream": alone[0] / alone[1]})
    moved = {name for name, value in found[0].items() if value != pytest.approx(found[1][name])}
    assert moved == {"t_sum"}
    assert [one["t_sum"] for one in found] == [26, 28]
