"""Measured thresholds find their parts: by class, dtype and family, weighed by what each kernel moves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from layers.floor.floors import Floor, floor
from layers.floor.layout import Layout
from layers.floor.model import Model, Part
from layers.floor.modules import Attention, Embedding, GatedMLP, MixtureOfExperts, Place, Step
from layers.floor.precision import Mix, Precision
from layers.floor.thresholds import Table, part_limits
from layers.floor.triage import PAPER, Limit
from tests.unit.test_floor_case_study import h20

HOPPER = replace(h20(), family="hopper")
PARTS = [
    Part("embedding", Embedding(4096, 32000), 1),
    Part("attention", Attention(4096, 32, 8, 128, 128), 30),
    Part("feed-forward", GatedMLP(4096, 14336), 2),
    Part("experts", MixtureOfExperts(4096, 2048, 64, 4), 28),
]
TABLE: Table = {
    "gemm": {
        "bfloat16 hopper": Limit(1.2, "measured", 1e-6),
        "fp8 hopper": Limit(1.4, "measured", 2e-6),
        "fp8 ada": Limit(9.0, "measured"),
    },
    "decode_attention": {"bfloat16/fp8 hopper": Limit(2.0, "measured", 5e-6)},
    "experts": {
        "w4a16_mxfp4 hopper": Limit(2.5, "measured", 8e-6),
        "w4a8_mxfp4_mxfp8 hopper": Limit(2.6, "measured", 8e-6),
    },
}


def limits(precision: Precision, table: Table = TABLE) -> tuple[Floor, dict[str, Limit]]:
    found = floor(Model("m", 4096, PARTS), Step(16.0, 4096.0), Place(Layout(), HOPPER, precision))
    return found, part_limits(found, PARTS, table)


def test_products_of_matrices_have_the_limit_of_their_format_and_two_launches_a_layer() -> None:
    _, found = limits(Precision(weights="fp8"))
    assert found["feed-forward"].factor == 1.4
    assert found["feed-forward"].fixed_s == pytest.approx(2 * 2 * 2e-6)


def test_attention_weighs_its_kernel_by_the_cache_that_it_reads() -> None:
    floors, found = limits(Precision(cache="fp8"))
    account = floors.parts["attention"]
    share = account.sequence_bytes / account.hbm_bytes
    assert 0.2 < share < 0.8
    assert found["attention"].factor == pytest.approx(share * 2.0 + (1 - share) * 1.2)
    assert found["attention"].fixed_s == pytest.approx(30 * (5e-6 + 2 * 1e-6))
    assert found["attention"].source == "measured"


@pytest.mark.parametrize(("logits", "factor"), [(1.0, 1.7), (512.0, 2.0), (None, 2.0)])
def test_attention_of_a_prompt_is_another_class_than_of_tokens_that_are_verified(
    logits: float | None, factor: float
) -> None:
    table = {**TABLE, "context_attention": {"bfloat16/fp8 hopper": Limit(1.7, "measured", 8e-6)}}
    place = Place(Layout(), HOPPER, Precision(cache="fp8"))
    found = floor(Model("m", 4096, PARTS), Step(16.0, 4096.0, 512.0, logits), place)
    account = found.parts["attention"]
    share = account.sequence_bytes / account.hbm_bytes
    limit = part_limits(found, PARTS, table)["attention"]
    assert limit.factor == pytest.approx(share * factor + (1 - share) * 1.2)


def test_a_kernel_without_an_entry_has_the_paper_s_threshold_and_says_so() -> None:
    floors, found = limits(Precision(cache="bf16"))
    account = floors.parts["attention"]
    share = account.sequence_bytes / account.hbm_bytes
    expected = share * PAPER.factor + (1 - share) * 1.2
    assert found["attention"].factor == pytest.approx(expected)
    assert found["attention"].source == f"measured and {PAPER.source}"


@pytest.mark.parametrize(("math", "factor"), [("bf16", 2.5), ("fp8", 2.6)])
def test_experts_of_four_bits_are_told_apart_by_their_arithmetic(math: str, factor: float) -> None:
    _, found = limits(Precision(experts="mxfp4", expert_math=math))
    assert found["experts"].factor == factor


def test_of_several_formats_the_one_of_most_parameters_counts() -> None:
    _, found = limits(Precision(weights=Mix((("bf16", 0.2), ("fp8", 0.8)))))
    assert found["feed-forward"].factor == 1.4


def test_a_part_that_differs_has_the_limit_of_its_own_format() -> None:
    differing = replace(PARTS[2], differs=(("weights", "fp8"),))
    model = Model("m", 4096, [*PARTS[:2], differing])
    found = floor(model, Step(16.0, 4096.0), Place(Layout(), HOPPER, Precision()))
    assert part_limits(found, model.parts, TABLE)["feed-forward"].factor == 1.4


def test_nothing_is_said_of_another_family_or_of_parts_without_kernels() -> None:
    _, found = limits(Precision(), {"gemm": {"bfloat16 ada": Limit(9.0, "measured")}})
    assert found == {}
    assert "embedding" not in limits(Precision())[1]
