"""Accounts of models that configurations describe: additive, monotone, and the same for floats and arrays."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layers.floor.account import Account
from layers.floor.configs import ConfigError, read
from layers.floor.floors import floor, total
from layers.floor.hardware import SCALE_OUT, SCALE_UP, Hardware, Link
from layers.floor.layout import Layout
from layers.floor.model import Model
from layers.floor.modules import Place, Step

UNTIMED = settings(deadline=None)
PEAKS = {"fp4": 4e15, "fp8": 2e15, "bf16": 1e15}
DEVICE = Hardware("device", 1e15, 1e12, PEAKS, {SCALE_UP: Link(4e11), SCALE_OUT: Link(5e10)}, 4)
LAYOUTS = st.sampled_from(["tp1", "tp2", "tp8", "dp2", "ep4+dp", "tp2+ep4+dp2", "tp2+pp2"])
BATCHES = st.sampled_from([1.0, 2.0, 7.0, 64.0, 1000.0])
CONTEXTS = st.sampled_from([1.0, 63.0, 64.0, 1024.0, 100_000.0])
QUANTISED = st.sampled_from(
    [
        None,
        {"quant_method": "fp8", "weight_block_size": [128, 128]},
        {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"},
        {"quant_algo": "FP8", "exclude_modules": ["model.layers.0*", "model.layers.1.self_attn"]},
    ]
)


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    """Return a small configuration of one of the kinds of attention, with or without experts."""
    heads = draw(st.sampled_from([4, 8, 16]))
    layers = draw(st.integers(2, 7))
    found: dict[str, Any] = {
        "hidden_size": heads * 16,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": draw(st.integers(1, 500)),
        "vocab_size": draw(st.integers(1, 5000)),
        "tie_word_embeddings": draw(st.booleans()),
        "dtype": "bfloat16",
        "quantization_config": draw(QUANTISED),
    }
    experts = draw(st.integers(1, 16))
    found |= {"moe_intermediate_size": draw(st.integers(1, 64))}
    chosen = {"num_experts": experts, "num_experts_per_tok": draw(st.integers(1, experts))}
    family = draw(st.sampled_from(["qwen3", "gemma2", "qwen3_moe", "deepseek_v32", "qwen3_next"]))
    found["model_type"] = family
    if family in {"qwen3", "gemma2"}:
        del found["moe_intermediate_size"]
        window = {"sliding_window": 64, "num_key_value_heads": draw(st.sampled_from([1, 2, 4]))}
        return found | window
    if family == "qwen3_moe":
        return found | chosen
    if family == "qwen3_next":
        names = ("linear_num_key_heads", "linear_key_head_dim", "linear_num_value_heads")
        names += ("linear_value_head_dim", "linear_conv_kernel_dim")
        return found | chosen | dict.fromkeys(names, 4)
    return found | {
        "n_routed_experts": experts,
        "num_experts_per_tok": chosen["num_experts_per_tok"],
        "first_k_dense_replace": draw(st.integers(0, layers)),
        "q_lora_rank": 8,
        "kv_lora_rank": 16,
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 8,
        "v_head_dim": 8,
        "index_n_heads": 2,
        "index_head_dim": 8,
        "index_topk": 64,
        "num_nextn_predict_layers": 1,
    }


def account_of(found: dict[str, Any], step: Step, layout: str) -> tuple[Model, Account]:
    model, precision = read(found)
    place = Place(Layout.parse(layout), DEVICE, precision)
    return model, floor(model, step, place).whole


def flat(account: Account) -> dict[str, Any]:
    """Return every number of an account by a name of its own."""
    found: dict[str, Any] = {}
    for one in fields(account):
        value = getattr(account, one.name)
        if isinstance(value, dict):
            found |= {f"{one.name} {key}": number for key, number in value.items()}
        else:
            found[one.name] = value
    return found


@UNTIMED
@given(configs(), BATCHES, CONTEXTS, LAYOUTS)
def test_a_model_asks_for_the_sum_of_its_parts(
    found: dict[str, Any], batch: float, context: float, layout: str
) -> None:
    model, precision = read(found)
    place = Place(Layout.parse(layout), DEVICE, precision)
    asked = floor(model, Step(batch, context), place)
    parts = total(account for _, account in model.accounts(Step(batch, context), place))
    assert flat(asked.whole) == pytest.approx(flat(parts))
    assert all(value >= 0 for value in flat(parts).values())


@UNTIMED
@given(configs(), BATCHES, CONTEXTS)
def test_a_part_of_several_layers_asks_for_that_many_times_one(
    found: dict[str, Any], batch: float, context: float
) -> None:
    model, precision = read(found)
    place, step = Place(Layout(), DEVICE, precision), Step(batch, context)
    for part in (*model.parts, *model.draft):
        one = replace(part, count=1).account(step, place)
        several = [one] * part.count
        assert flat(total(several)) == pytest.approx(flat(part.account(step, place)))


@UNTIMED
@given(configs(), BATCHES, CONTEXTS, LAYOUTS)
def test_more_sequences_and_longer_ones_never_ask_for_less(
    found: dict[str, Any], batch: float, context: float, layout: str
) -> None:
    _, asked = account_of(found, Step(batch, context), layout)
    for step in (Step(batch * 2, context), Step(batch, context * 2), Step(batch, context, 2.0)):
        _, more = account_of(found, step, layout)
        grown = flat(more)
        assert all(grown[name] >= value * (1 - 1e-12) for name, value in flat(asked).items())


@UNTIMED
@given(configs(), LAYOUTS)
def test_devices_together_hold_at_least_all_weights(found: dict[str, Any], layout: str) -> None:
    model, alone = account_of(found, Step(8.0, 64.0), "tp1")
    _, shared = account_of(found, Step(8.0, 64.0), layout)
    devices = Layout.parse(layout).devices
    assert shared.resident_bytes <= alone.resident_bytes * (1 + 1e-12)
    assert shared.resident_bytes * devices >= alone.resident_bytes * (1 - 1e-12)
    tied = model.hidden * bool(found["tie_word_embeddings"])  # the table counts as a row and a head
    assert model.active_parameters() <= model.parameters() + tied


@UNTIMED
@given(configs(), LAYOUTS)
def test_an_array_of_steps_gives_what_each_step_gives(found: dict[str, Any], layout: str) -> None:
    batches, contexts = np.array([1.0, 5.0, 64.0, 1000.0]), np.array([1.0, 80.0, 64.0, 1e5])
    _, asked = account_of(found, Step(batches, contexts), layout)
    for i, (batch, context) in enumerate(zip(batches, contexts, strict=True)):
        _, one = account_of(found, Step(float(batch), float(context)), layout)
        expected = flat(one)
        for name, value in flat(asked).items():
            assert np.broadcast_to(value, 4)[i] == pytest.approx(expected[name])


@UNTIMED
@given(
    st.integers(1, 96),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([64, 128]),
    st.sampled_from([("bf16", 2), ("fp8", 1)]),
)
def test_the_cache_of_a_token_is_two_vectors_a_head_and_layer(
    layers: int, kv_heads: int, width: int, stored: tuple[str, int]
) -> None:
    found = {
        "model_type": "llama",
        "hidden_size": 1024,
        "num_hidden_layers": layers,
        "num_attention_heads": 8,
        "num_key_value_heads": kv_heads,
        "head_dim": width,
        "intermediate_size": 64,
        "vocab_size": 10,
    }
    model, precision = read(found)
    precision = replace(precision, cache=stored[0])
    for devices in (1, 2, 8):
        place = Place(Layout(tp=devices), DEVICE, precision)
        whole = floor(model, Step(1.0, 10.0), place).whole
        heads = max(1, kv_heads / devices)
        by_hand = 2 * layers * heads * width * stored[1]
        assert whole.cache_bytes_per_token == pytest.approx(by_hand)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


@UNTIMED
@given(configs(), st.data())
def test_any_value_at_any_key_is_read_or_refused_with_a_reason(
    found: dict[str, Any], data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from(sorted(found)))
    found[key] = data.draw(JSON)
    try:
        model, _ = read(found, data.draw(JSON))
    except ConfigError as error:
        reason = str(error)
    else:
        reason = f"{model.parameters():.0f} parameters"
    assert reason
