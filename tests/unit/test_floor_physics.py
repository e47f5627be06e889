"""Modules of a step held against single operations, and against counting token by token."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layers.floor import operations
from layers.floor.hardware import SCALE_UP, Hardware, Link
from layers.floor.layout import Layout
from layers.floor.modules import (
    Attention,
    LatentAttention,
    MixtureOfExperts,
    Place,
    Step,
    dense,
)
from layers.floor.operations import Heads
from layers.floor.precision import Precision

CARD = Hardware("card", 80e9, 2e12, {"bf16": 1e15, "fp8": 2e15}, {SCALE_UP: Link(100e9)}, 64)
ALONE = Place(Layout(), CARD, Precision(attention_math="fp8"))
LATENT = LatentAttention(7168, 128, 1536, 512, 64, 128, 128)


def attention_flops(module: Attention | LatentAttention, step: Step) -> float:
    return float(module.account(step, ALONE).flops["fp8"])


@given(context=st.integers(0, 200), new=st.integers(1, 200), window=st.none() | st.integers(1, 200))
def test_attention_counts_what_each_new_token_sees(
    context: int, new: int, window: int | None
) -> None:
    module = Attention(1024, 8, 2, 128, 64, window)
    seen = sum(min(context + i, window or context + i) for i in range(1, new + 1))
    step = Step(3.0, float(context), float(new))
    assert attention_flops(module, step) == pytest.approx(3 * 2 * 8 * (128 + 64) * seen)


@given(new=st.integers(1, 500), window=st.integers(1, 500))
def test_a_first_step_asks_for_the_arithmetic_of_its_attention_alone(new: int, window: int) -> None:
    module = Attention(1024, 8, 2, 128, 64, window)
    alone = operations.context_attention(
        2.0,
        float(new),
        Heads(8.0, 2.0, 128.0, 64.0),
        math="fp8",
        cache_bytes=2.0,
        window=float(window),
    )
    step = Step(2.0, 0.0, float(new))
    assert attention_flops(module, step) == pytest.approx(alone.flops["fp8"])


@given(batch=st.integers(1, 64), context=st.integers(1, 100_000))
def test_decoding_computes_on_latents(batch: int, context: int) -> None:
    alone = operations.latent_decode(
        float(batch), context + 1.0, 128.0, (512.0, 64.0), math="fp8", cache_bytes=2.0
    )
    step = Step(float(batch), float(context))
    assert attention_flops(LATENT, step) == pytest.approx(alone.flops["fp8"])


@given(new=st.integers(1, 20_000))
def test_a_first_step_makes_keys_and_values_of_latents(new: int) -> None:
    alone = operations.context_attention(
        1.0,
        float(new),
        Heads(128.0, 128.0, 192.0, 128.0),
        math="fp8",
        cache_bytes=2.0,
    )
    assert attention_flops(LATENT, Step(1.0, 0.0, float(new))) == pytest.approx(alone.flops["fp8"])


@given(context=st.integers(1, 100_000), new=st.integers(1, 10_000))
def test_latent_attention_takes_the_cheaper_of_both_ways(context: int, new: int) -> None:
    pairs = new * (context + (new + 1) / 2)
    absorbed = 2 * 128 * pairs * (2 * 512 + 64)
    made = 2 * 128 * (pairs * (128 + 64 + 128) + context * 512 * (128 + 128))
    found = attention_flops(LATENT, Step(1.0, float(context), float(new)))
    assert found == pytest.approx(min(absorbed, made))


@pytest.mark.parametrize(("devices", "top_k"), [(2, 1), (8, 8), (16, 8), (4, 64)])
def test_a_token_goes_once_to_each_device_that_has_an_expert_of_it(
    devices: int, top_k: int
) -> None:
    experts = MixtureOfExperts(1024, 512, 64, top_k)
    place = Place(Layout.parse(f"ep{devices}+dp"), CARD, Precision())
    step = Step(64.0 * devices, 128.0)
    sent = experts.account(step, place).net_bytes[SCALE_UP]
    met = devices * (1 - (1 - 1 / devices) ** top_k)
    others = (devices - 1) / devices
    assert sent == pytest.approx(2 * 64 * met * others * 1024 * 2)
    assert met <= min(top_k, devices)


def test_matrices_are_counted_apart_from_attention() -> None:
    module = Attention(1024, 8, 2, 128, 64)
    step = Step(2.0, 10.0)
    own = dense(module.parameters(), step, ALONE)
    assert module.account(step, ALONE).flops["bf16"] == own.flops["bf16"]
