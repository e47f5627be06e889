"""Expected times: above their floors, in between what was measured, and the same for floats and arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layers.floor import operations
from layers.floor.expected import Efficiency, Terms, between, blended, share, terms
from layers.floor.hardware import SCALE_UP, Hardware, Link
from layers.floor.layout import all_reduce

CARD = Hardware(
    "card", 80e9, 2e12, {"bf16": 1e15}, {SCALE_UP: Link(100e9, 1e-6)}, 8, cache_bytes=50e6
)
PEAK = Efficiency(1.0, 1.0, 1.0, 0.0)
SIZES = st.integers(1, 65536).map(float)
SECONDS = st.floats(1e-9, 1.0)
FACTORS = st.floats(0.1, 50.0)


def product(m: float, n: float, k: float) -> operations.Account:
    return operations.gemm(m, n, k, math="bf16", weight_bytes=2.0)


@given(m=SIZES, n=SIZES, k=SIZES)
def test_a_kernel_at_all_peaks_takes_its_floor_at_least_and_no_more_than_its_terms(
    m: float, n: float, k: float
) -> None:
    asked = product(m, n, k)
    found = terms(asked, CARD)
    took = PEAK.expected_s(found)
    assert took >= operations.floor_s(asked, CARD) * (1 - 1e-12)
    assert took <= (found.moved_s + found.math_s) * (1 + 1e-12)


@given(m=SIZES, n=SIZES, k=SIZES)
def test_what_the_cache_kept_is_told_apart_and_nothing_is_lost(
    m: float, n: float, k: float
) -> None:
    asked = product(m, n, k)
    cold, again = terms(asked, CARD), terms(asked, CARD, 1.0)
    assert cold.kept_s == 0
    assert again.moved_s + again.kept_s == pytest.approx(cold.moved_s)
    assert again.kept_s <= CARD.cache_bytes / CARD.hbm_bytes_per_s * (1 + 1e-9)
    assert again.math_s == cold.math_s


def test_what_goes_over_a_link_is_moved() -> None:
    asked = all_reduce(1e6, 8, CARD)
    assert terms(asked, CARD).moved_s == pytest.approx(operations.floor_s(asked, CARD))


def test_each_number_of_an_efficiency_acts_on_its_own_term() -> None:
    efficiency = Efficiency(2.0, 0.5, 3.0, 1e-6)
    assert efficiency.expected_s(Terms(0.0, 0.0, 0.0)) == 1e-6
    assert efficiency.expected_s(Terms(1e-3, 0.0, 0.0)) == pytest.approx(2.001e-3)
    assert efficiency.expected_s(Terms(0.0, 1e-3, 0.0)) == pytest.approx(0.501e-3)
    assert efficiency.expected_s(Terms(0.0, 0.0, 1e-3)) == pytest.approx(3.001e-3)


@given(moved=SECONDS, kept=SECONDS, worked=SECONDS, more=st.floats(1.0, 10.0))
def test_more_of_a_term_never_takes_less(
    moved: float, kept: float, worked: float, more: float
) -> None:
    efficiency = Efficiency(1.3, 0.4, 1.5, 2e-6)
    took = efficiency.expected_s(Terms(moved, kept, worked))
    for grown in (
        (moved * more, kept, worked),
        (moved, kept * more, worked),
        (moved, kept, worked * more),
    ):
        assert efficiency.expected_s(Terms(*grown)) >= took * (1 - 1e-12)


@given(low=SIZES, ratio=st.floats(1.01, 1000.0), way=st.floats(0.0, 1.0))
def test_the_share_of_the_way_is_that_of_logarithms(low: float, ratio: float, way: float) -> None:
    found = share(low, low * ratio, low * ratio**way)
    assert found == pytest.approx(way, abs=2e-3)


@given(low=FACTORS, high=FACTORS, way=st.floats(0.0, 1.0))
def test_a_factor_between_two_lies_between_them_and_meets_both_ends(
    low: float, high: float, way: float
) -> None:
    found = between(low, high, way)
    assert min(low, high) * (1 - 1e-9) <= found <= max(low, high) * (1 + 1e-9)
    assert between(low, high, 0.0) == pytest.approx(low)
    assert between(low, high, 1.0) == pytest.approx(high)


@given(st.lists(st.tuples(FACTORS, st.floats(1e-3, 1e3)), min_size=1, max_size=5))
def test_blending_is_the_weighted_mean_of_logarithms(pairs: list[tuple[float, float]]) -> None:
    factors, weights = zip(*pairs, strict=True)
    mean = sum(w * math.log(f) for f, w in pairs) / sum(weights)
    assert blended(factors, weights) == pytest.approx(math.exp(mean))


def test_blending_refuses_no_factors_and_weights_that_are_too_few() -> None:
    with pytest.raises(ValueError, match="0 factors and 0 weights"):
        blended([], [])
    with pytest.raises(ValueError, match="2 factors and 1 weights"):
        blended([1.0, 2.0], [1.0])


def test_arrays_give_what_their_elements_give() -> None:
    m = np.array([1.0, 64.0, 4096.0])
    efficiency = Efficiency(1.2, 0.3, 1.4, 3e-6)

    def estimate(size: float) -> float:
        took = efficiency.expected_s(terms(product(size, 4096.0, 8192.0), CARD, 1.0))
        factor = blended([between(1.1, 1.3, share(1.0, 8192.0, size)), 0.9], [2.0, 1.0])
        return float(took * factor)

    took = efficiency.expected_s(terms(product(m, 4096.0, 8192.0), CARD, 1.0))  # type: ignore[arg-type]
    whole = took * blended([between(1.1, 1.3, share(1.0, 8192.0, m)), np.full(3, 0.9)], [2.0, 1.0])
    assert whole == pytest.approx([estimate(float(size)) for size in m])
