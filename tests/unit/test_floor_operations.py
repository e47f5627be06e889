"""Floors of single operations: accounts by hand for small calls, and what holds for calls of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layers.floor import operations
from layers.floor.hardware import SCALE_UP, Hardware, Link
from layers.floor.layout import all_reduce
from layers.floor.operations import Heads

UNTIMED = settings(deadline=None)
SIZES = st.integers(1, 4096).map(float)
CARD = Hardware(
    "card",
    80e9,
    2e12,
    {"bf16": 1e15, "fp8": 2e15},
    {SCALE_UP: Link(100e9)},
    8,
    cache_bytes=50e6,
)


def product(m: Any, n: Any, k: Any) -> operations.Account:
    return operations.gemm(m, n, k, math="bf16", weight_bytes=2.0)


def context(tokens: float, **options: Any) -> operations.Account:
    heads = Heads(8.0, 2.0, 128.0, 64.0)
    return operations.context_attention(1.0, tokens, heads, math="bf16", cache_bytes=2.0, **options)


def decode(tokens: float, **options: Any) -> operations.Account:
    heads = Heads(8.0, 2.0, 128.0, 64.0)
    return operations.decode_attention(1.0, tokens, heads, math="bf16", cache_bytes=2.0, **options)


def test_a_product_moves_its_three_matrices_once() -> None:
    asked = product(2.0, 3.0, 5.0)
    assert asked.hbm_bytes == 2 * (3 * 5 + 2 * 5 + 2 * 3)
    assert asked.flops == {"bf16": 2 * 2 * 3 * 5}


@UNTIMED
@given(m=SIZES, n=SIZES, k=SIZES)
def test_a_product_costs_no_less_in_one_call_than_its_halves_in_two_save_for_shared_operands(
    m: float, n: float, k: float
) -> None:
    whole, half = product(m, 2 * n, k), product(m, n, k)
    assert whole.flops["bf16"] == 2 * half.flops["bf16"]
    assert whole.hbm_bytes == pytest.approx(2 * half.hbm_bytes - 2 * m * k)


@UNTIMED
@given(tokens=st.integers(1, 300))
def test_attention_over_new_tokens_does_what_decoding_them_one_by_one_would(tokens: int) -> None:
    one_by_one = sum(decode(float(seen)).flops["bf16"] for seen in range(1, tokens + 1))
    assert context(float(tokens)).flops["bf16"] == pytest.approx(one_by_one)


@UNTIMED
@given(tokens=st.integers(1, 300), window=st.integers(1, 300))
def test_a_window_takes_away_the_tokens_before_it(tokens: int, window: int) -> None:
    near = sum(min(seen, window) for seen in range(1, tokens + 1))
    asked = context(float(tokens), window=float(window))
    assert asked.flops["bf16"] == pytest.approx(2 * 8 * (128 + 64) * near)
    seen = decode(float(tokens), window=float(window))
    assert seen.hbm_bytes == min(tokens, window) * 2 * (128 + 64) * 2


def test_tokens_that_see_those_after_them_too_do_all_pairs() -> None:
    assert context(10.0, causal=False).flops["bf16"] == 2 * 8 * (128 + 64) * 100


def test_all_heads_of_a_latent_share_what_is_read() -> None:
    few, many = (
        operations.latent_decode(1.0, 100.0, heads, (512.0, 64.0), math="bf16", cache_bytes=2.0)
        for heads in (16.0, 128.0)
    )
    assert few.hbm_bytes == many.hbm_bytes == 100 * 576 * 2
    assert many.flops["bf16"] == 8 * few.flops["bf16"] == 2 * 128 * (2 * 512 + 64) * 100


def test_experts_read_the_weights_that_are_met_and_compute_for_every_pair() -> None:
    asked = operations.experts(
        16.0, 3.0, 64.0, 32.0, math="fp8", weight_bytes=1.0, top_k=4.0, matrices=3.0
    )
    assert asked.flops == {"fp8": 2 * 16 * 3 * 64 * 32}
    assert asked.hbm_bytes == 3 * (3 * 64 * 32) + (16 / 4) * 64 * 2 * 2


def test_a_state_is_read_and_written_once_however_many_tokens_pass() -> None:
    one, many = (
        operations.recurrence(
            2.0,
            tokens,
            4.0,
            (8.0, 16.0),
            math="bf16",
            state_bytes=4.0,
            token_bytes=10.0,
            each=4.0,
        )
        for tokens in (1.0, 100.0)
    )
    assert one.hbm_bytes == 2 * 2 * 4 * 8 * 16 * 4 + 2 * 10
    assert many.hbm_bytes - one.hbm_bytes == 2 * 99 * 10
    assert many.flops["bf16"] == 100 * one.flops["bf16"]


@UNTIMED
@given(m=SIZES, n=SIZES, k=SIZES, copies=st.integers(1, 6).map(float))
def test_a_repeated_call_needs_no_more_than_a_cold_one_and_saves_the_cache_at_most(
    m: float, n: float, k: float, copies: float
) -> None:
    cold = product(m, n, k)
    warm = operations.warm(cold, CARD, copies)
    assert 0 <= warm.hbm_bytes <= cold.hbm_bytes
    assert cold.hbm_bytes - warm.hbm_bytes <= CARD.cache_bytes / copies * (1 + 1e-9)
    assert warm.flops == cold.flops
    assert operations.floor_s(cold, CARD, copies) <= operations.floor_s(cold, CARD) * (1 + 1e-9)


def test_operands_that_fit_the_cache_leave_arithmetic_alone() -> None:
    asked = product(1024.0, 1024.0, 1024.0)
    assert operations.warm(asked, CARD).hbm_bytes == 0
    assert operations.floor_s(asked, CARD, 1.0) == pytest.approx(2 * 1024**3 / 1e15)


def test_a_known_cache_bandwidth_binds_where_nothing_else_does() -> None:
    known = Hardware("known", 80e9, 2e12, {"bf16": 1e15}, cache_bytes=50e6, cache_bytes_per_s=5e12)
    asked = product(1.0, 1024.0, 1024.0)
    assert operations.floor_s(asked, known, 1.0) == pytest.approx(asked.hbm_bytes / 5e12)


@UNTIMED
@given(st.lists(st.tuples(SIZES, SIZES, SIZES), min_size=1, max_size=8))
def test_arrays_say_the_same_as_one_call_after_the_other(calls: list[tuple[float, ...]]) -> None:
    m, n, k = (np.array(column) for column in zip(*calls, strict=True))
    together = operations.floor_s(product(m, n, k), CARD, 1.0)
    alone = [operations.floor_s(product(*call), CARD, 1.0) for call in calls]
    assert together == pytest.approx(alone)


@UNTIMED
@given(devices=st.integers(2, 8))
def test_a_switch_that_adds_lets_each_device_send_its_values_once(devices: int) -> None:
    adds = Hardware("adds", 80e9, 2e12, {"bf16": 1e15}, {SCALE_UP: Link(100e9, reduces=True)}, 8)
    sent = all_reduce(1e6, devices, adds).net_bytes[SCALE_UP]
    without = all_reduce(1e6, devices, CARD).net_bytes[SCALE_UP]
    assert sent == 1e6
    assert without == pytest.approx(2e6 * (devices - 1) / devices)
    assert sent <= without
