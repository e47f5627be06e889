"""Formats as a person gives them: what is stored has a format, arithmetic a dtype."""

from __future__ import annotations

import pytest

from layers import hardware_cards
from layers.floor.facts import DTYPES
from layers.floor.precision import BYTES, Precision, bytes_of
from layers.floor.units import formats_of


@pytest.mark.parametrize("stored", BYTES)
def test_what_is_stored_takes_every_format_that_has_a_size(stored: str) -> None:
    given = formats_of(f"weights={stored}, experts={stored},activations={stored}")
    assert {bytes_of(one) for one in given.values()} == {BYTES[stored]}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("key", ["math", "expert_math", "attention_math", "index_math"])
def test_arithmetic_takes_every_dtype_that_a_card_may_have_a_peak_for(key: str, dtype: str) -> None:
    assert formats_of(f"{key}={dtype}")[key] == dtype
    assert getattr(Precision(**formats_of(f"{key}={dtype}")), key) == dtype


def test_fp4_arithmetic_can_be_named_where_a_card_has_it() -> None:
    card = hardware_cards.read("b200")
    math = formats_of("experts=nvfp4,expert_math=fp4")["expert_math"]
    assert card.peak(math) > card.peak("fp8")


@pytest.mark.parametrize("text", ["math=nvfp4", "expert_math=mxfp8", "attention_math=int4"])
def test_no_arithmetic_is_done_in_a_way_to_store(text: str) -> None:
    with pytest.raises(ValueError, match="is not one of fp32, bf16, fp16, fp8, int8, fp4"):
        formats_of(text)


@pytest.mark.parametrize("text", ["weights=fp4", "cache=", "cache=fp9"])
def test_a_dtype_without_its_scales_is_no_way_to_store(text: str) -> None:
    with pytest.raises(ValueError, match="is not one of fp32, bf16, fp16, fp8, fp8_block"):
        formats_of(text)


@pytest.mark.parametrize(
    ("text", "math"),
    [
        ("cache=fp8", "fp8"),
        ("attention_math=bf16,cache=fp8", "bf16"),
        ("cache=fp8,attention_math=bf16", "bf16"),
        ("cache=bf16", None),
    ],
)
def test_a_cache_in_fp8_is_multiplied_as_it_is_unless_told_otherwise(
    text: str, math: str | None
) -> None:
    assert formats_of(text).get("attention_math") == math


@pytest.mark.parametrize(
    ("text", "dispatched"),
    [
        ("expert_math=fp8", "fp8"),
        ("experts=nvfp4,expert_math=fp4", "nvfp4"),
        ("expert_math=fp8,dispatched=bf16", "bf16"),
        ("expert_math=bf16", None),
        ("math=fp8", None),
    ],
)
def test_tokens_travel_to_experts_in_what_these_multiply_unless_told_otherwise(
    text: str, dispatched: str | None
) -> None:
    """A token of FP8 arithmetic need not cross a link in 16 bits: twice the least bytes."""
    assert formats_of(text).get("dispatched") == dispatched
