"""Modules of a step held against single operations, and against counting token by token."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layers.floor import operations
from layers.floor.floors import floor
from layers.floor.hardware import SCALE_UP, Hardware, Link
from layers.floor.layout import Layout
from layers.floor.model import Model, Part
from layers.floor.modules import (
    Attention,
    GatedMLP,
    Head,
    LatentAttention,
    MixtureOfExperts,
    Place,
    SparseIndex,
    Step,
    dense,
)
from layers.floor.operations import Heads
from layers.floor.precision import Precision

UNTIMED = settings(deadline=None)
CARD = Hardware("card", 80e9, 2e12, {"bf16": 1e15, "fp8": 2e15}, {SCALE_UP: Link(100e9)}, 64)
ALONE = Place(Layout(), CARD, Precision(attention_math="fp8"))
LATENT = LatentAttention(7168, 128, 1536, 512, 64, 128, 128)


def attention_flops(module: Attention | LatentAttention, step: Step) -> float:
    return float(module.account(step, ALONE).flops["fp8"])


@UNTIMED
@given(context=st.integers(0, 200), new=st.integers(1, 200), window=st.none() | st.integers(1, 200))
def test_attention_counts_what_each_new_token_sees(
    context: int, new: int, window: int | None
) -> None:
    module = Attention(1024, 8, 2, 128, 64, window)
    seen = sum(min(context + i, window or context + i) for i in range(1, new + 1))
    step = Step(3.0, float(context), float(new))
    assert attention_flops(module, step) == pytest.approx(3 * 2 * 8 * (128 + 64) * seen)


@UNTIMED
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


@UNTIMED
@given(batch=st.integers(1, 64), context=st.integers(1, 100_000))
def test_decoding_computes_on_latents(batch: int, context: int) -> None:
    alone = operations.latent_decode(
        float(batch), context + 1.0, 128.0, (512.0, 64.0), math="fp8", cache_bytes=2.0
    )
    step = Step(float(batch), float(context))
    assert attention_flops(LATENT, step) == pytest.approx(alone.flops["fp8"])


@UNTIMED
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


@UNTIMED
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


@pytest.mark.parametrize(("logits", "tokens"), [(None, 2048), (1.0, 1), (3.0, 3)])
def test_the_head_computes_the_logits_that_are_asked_for_and_is_read_once(
    logits: float | None, tokens: int
) -> None:
    """Llama 3: 4,096 x 128,256 matrix, one multiply-add an element and token, of 4 sequences. A prompt of 2,048
    tokens needs the logits of its last: 4.2 GFLOP instead of 8.6 TFLOP.
    """
    found = Head(4096, 128256).account(Step(4.0, 1.0, 2048.0, logits), ALONE)
    assert found.flops == {"bf16": pytest.approx(4 * tokens * 2 * 4096 * 128256)}
    assert found.hbm_bytes == 4096 * 128256 * 2


@pytest.mark.parametrize("layout", ["tp1", "tp2", "tp2+pp2"])
def test_a_prompt_saves_all_logits_but_the_last_in_every_layout(layout: str) -> None:
    """Of 8 prompts of 512 tokens 511 of each need none: 8 x 511 x 2 x 1,024 x 50,000 FLOPs, over `tp`.

    With two stages a device passes two halves of the batch, each through half of the layers.
    """
    parts = [Part("feed-forward", GatedMLP(1024, 4096), 2), Part("head", Head(1024, 50_000), 1)]
    model, place = Model("m", 1024, parts), Place(Layout.parse(layout), CARD, Precision())
    every, last = (
        floor(model, Step(8.0, 1.0, 512.0, logits), place).whole for logits in (None, 1.0)
    )
    saved = 8 * 511 * 2 * 1024 * 50_000 / place.layout.tp / place.layout.pp
    assert every.flops["bf16"] - last.flops["bf16"] == pytest.approx(saved)
    assert every.hbm_bytes == last.hbm_bytes


@pytest.mark.parametrize(
    ("width", "kept"), [(128, 128 + 4), (64, 64 + 4), (129, 129 + 2 * 4), (512, 512 + 4 * 4)]
)
def test_an_index_key_is_as_wide_as_stated_with_a_scale_for_each_128(width: int, kept: int) -> None:
    """FP8: one byte an element, and a float32 for each 128 of them or what is left of them."""
    index = SparseIndex(heads=4, width=width, top_k=16)
    found = replace(LATENT, index=index).account(Step(1.0, 100.0), ALONE)
    bare = LATENT.account(Step(1.0, 100.0), ALONE)
    assert found.cache_bytes_per_token - bare.cache_bytes_per_token == kept
    assert replace(index, key_bytes=256.0).kept == 256.0


@pytest.mark.parametrize("window", [None, 1000])
def test_room_is_for_sequences_as_long_as_a_step_leaves_them(window: int | None) -> None:
    """A prompt of 8,192 tokens is in the cache when it has been read: 8,192 x 2 x 2 heads x 128 x 2 bytes, no less
    than for a sequence that decodes its 8,193rd token; of a window 1,000.
    """
    parts = [Part("attention", Attention(1024, 8, 2, 128, 128, window), 1)]
    model, tokens = Model("m", 1024, parts), window or 8192
    reading = floor(model, Step(1.0, 1.0, 8192.0, 1.0), ALONE)
    decoding = floor(model, Step(1.0, 8192.0), ALONE)
    left = 80e9 - reading.whole.resident_bytes
    assert reading.most_sequences == pytest.approx(left / (tokens * 2 * 2 * 128 * 2))
    assert reading.most_sequences == pytest.approx(decoding.most_sequences)
