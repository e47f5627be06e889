"""Pairs and experts of the measured device, held against the collectors' routing done token by token."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.silicon_routing import bfloat16, routed

SHAPES = st.sampled_from(
    [(8, 2, 1), (8, 2, 4), (60, 4, 1), (128, 8, 16), (256, 8, 8), (512, 10, 2)]
)


@given(tokens=st.integers(1, 700), shape=SHAPES)
def test_balanced_routing_is_counted_as_if_token_by_token(
    tokens: int, shape: tuple[int, int, int]
) -> None:
    experts, top_k, devices = shape
    stride = -(-experts // top_k)
    own = experts // devices
    chosen = [
        int((token if tokens >= stride else token * stride / tokens) + choice * stride) % experts
        for token in range(tokens)
        for choice in range(top_k)
    ]
    local = [expert for expert in chosen if expert < own]
    found = routed("balanced", tokens, experts, top_k, devices, coarse=False)
    assert found == (max(1, len(local)), max(1, len(set(local))))


@given(tokens=st.integers(1, 4096), shape=SHAPES, alpha=st.sampled_from(["1.01", "1.2"]))
def test_the_fullest_device_gets_its_share_at_least_and_meets_no_more_than_it_has(
    tokens: int, shape: tuple[int, int, int], alpha: str
) -> None:
    experts, top_k, devices = shape
    pairs, met = routed(f"power_law_{alpha}", tokens, experts, top_k, devices, coarse=False)
    assert tokens * top_k / devices <= pairs <= tokens * top_k or pairs == 1
    assert 1 <= met <= experts / devices
    assert met >= pairs / tokens - 1e-9


def test_experts_spaced_in_bfloat16_fall_together_above_256() -> None:
    exact = routed("balanced", 48, 512, 10, 1, coarse=False)
    coarse = routed("balanced", 48, 512, 10, 1, coarse=True)
    assert exact[0] == coarse[0] == 480
    assert coarse[1] < 0.9 * exact[1]


def test_an_unknown_distribution_is_only_known_to_share_evenly_at_least() -> None:
    assert routed("uniform", 100, 256, 8, 4, coarse=False) == (200.0, 2.0)
    assert routed("power_law_1.2_eplb", 100, 256, 8, 4, coarse=False) == (200.0, 2.0)


@given(st.floats(2.0**-60, 2.0**60))
def test_bfloat16_keeps_eight_bits(value: float) -> None:
    rounded = float(bfloat16(np.array([value]))[0])
    mantissa = np.frexp(rounded)[0] * 2**8
    assert mantissa == int(mantissa)
    assert rounded == pytest.approx(value, rel=2.0**-8)


def test_bfloat16_rounds_ties_to_even() -> None:
    assert bfloat16(np.array([257.0, 259.0, 258.0])).tolist() == [256.0, 260.0, 258.0]
