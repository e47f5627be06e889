"""Configurations of each family, small ones written for this and published ones, read as declared modules.

Small ones are held against the shapes of a checkpoint's matrices, written out by hand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from layers.floor.configs import ConfigError, read
from layers.floor.floors import floor
from layers.floor.hardware import Hardware
from layers.floor.layout import Layout
from layers.floor.model import Model
from layers.floor.modules import CompressedAttention, Place, Step

Shapes = list[tuple[int, ...]]
PEAKS = {"fp4": 4e15, "fp8": 2e15, "bf16": 1e15}
DEVICE = Hardware("device", 1e15, 1e12, PEAKS)

BASE = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 96,
    "vocab_size": 1000,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
QKVO: Shapes = [(128, 64), (32, 64), (32, 64), (64, 128)]
TABLES: Shapes = [(1000, 64), (1000, 64)]


def block(inner: int, hidden: int = 64) -> Shapes:
    return [(inner, hidden), (inner, hidden), (hidden, inner)]


def size(*groups: Shapes) -> int:
    return sum(math.prod(shape) for shapes in groups for shape in shapes)


def config(model_type: str, **keys: Any) -> dict[str, Any]:
    found = {**BASE, "model_type": model_type, **keys}
    return {key: value for key, value in found.items() if value is not ...}


def model_of(found: Mapping[str, Any]) -> Model:
    return read(found)[0]


def counts(model: Model) -> dict[str, int]:
    return {part.name: part.count for part in model.parts}


def bytes_per_token(found: Mapping[str, Any]) -> float:
    model, precision = read(found)
    whole = floor(model, Step(1.0, 4096.0), Place(Layout(), DEVICE, precision)).whole
    return float(whole.cache_bytes_per_token)


def test_a_dense_model_has_the_matrices_of_its_checkpoint() -> None:
    model = model_of(config("llama"))
    assert model.parameters() == size(TABLES, (QKVO + block(96)) * 4)
    assert counts(model) == {"embedding": 1, "attention": 4, "feed-forward": 4, "head": 1}
    assert model.assumptions == ()


def test_a_tied_head_is_counted_once_and_the_family_says_what_is_the_default() -> None:
    tied = model_of(config("llama", tie_word_embeddings=True)).parameters()
    assert tied == size(TABLES[:1], (QKVO + block(96)) * 4)
    assert model_of(config("gemma", tie_word_embeddings=...)).parameters() == tied
    assert model_of(config("mistral", tie_word_embeddings=...)).parameters() == tied + 64_000


def test_a_language_model_may_come_without_the_encoder_that_its_family_has() -> None:
    inner = config("qwen3_vl_text")
    assert model_of(inner).parts == model_of(config("qwen3")).parts
    assert model_of(inner).assumptions == ()


def test_a_model_in_32_bits_is_taken_as_served_in_16_and_says_so() -> None:
    model, precision = read(config("llama", torch_dtype="float32"))
    assert precision == read(config("llama"))[1]
    assert any("float32" in text for text in model.assumptions)


def test_heads_are_as_many_and_as_wide_as_the_hidden_size_allows_where_nothing_is_stated() -> None:
    model = model_of(config("llama", num_key_value_heads=..., head_dim=...))
    assert model.parameters() == size(TABLES, ([(64, 64)] * 4 + block(96)) * 4)


def test_a_window_counts_as_state_and_the_whole_context_as_cache() -> None:
    for found, full in (
        (config("mistral", sliding_window=128), 0),
        (config("mistral", sliding_window=None), 4),
        (config("gemma2", sliding_window=128), 2),
        (config("gemma3_text", sliding_window=128, num_hidden_layers=12), 2),
        (config("qwen2", use_sliding_window=False, sliding_window=128), 4),
        (config("qwen2", use_sliding_window=True, sliding_window=128, max_window_layers=3), 3),
        (config("qwen3", layer_types=["full_attention"] * 4), 4),
    ):
        assert bytes_per_token(found) == full * 2 * 2 * 16 * 2, found["model_type"]


def test_a_window_keeps_no_more_than_the_context_has() -> None:
    wide, open_ = (config("phi3", sliding_window=window) for window in (262_144, None))
    rooms = []
    for found in (wide, open_):
        model, precision = read(found)
        rooms.append(
            floor(model, Step(1.0, 4096.0), Place(Layout(), DEVICE, precision)).most_sequences
        )
    assert rooms[0] == pytest.approx(rooms[1])


def test_experts_hold_the_routed_ones_the_router_and_the_shared_one() -> None:
    found = config(
        "qwen2_moe",
        num_experts=16,
        num_experts_per_tok=4,
        moe_intermediate_size=24,
        shared_expert_intermediate_size=40,
    )
    layer = QKVO + block(24) * 16 + block(40) + [(16, 64)]
    met = QKVO + block(24) * 4 + block(40) + [(16, 64)]
    model = model_of(found)
    assert model.parameters() == size(TABLES, layer * 4)
    assert model.active_parameters() == size([(64,)], TABLES[:1], met * 4)


def test_layers_without_experts_are_those_listed_or_stepped_over() -> None:
    keys = {"num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 24}
    listed = config("qwen3_moe", mlp_only_layers=[0, 2], **keys)
    stepped = config("qwen3_moe", decoder_sparse_step=2, **keys)
    assert counts(model_of(listed))["experts"] == counts(model_of(stepped))["experts"] == 2
    assert model_of(listed).parameters() == model_of(stepped).parameters()
    step = config("llama4", intermediate_size_mlp=96, num_local_experts=4, num_experts_per_tok=1)
    assert counts(model_of({**step, "interleave_moe_layer_step": 1}))["experts"] == 4
    assert counts(model_of({**step, "interleave_moe_layer_step": 2}))["experts"] == 2


def test_llama4_attends_within_chunks_in_three_layers_of_four() -> None:
    found = config(
        "llama4",
        intermediate_size_mlp=96,
        num_local_experts=4,
        num_experts_per_tok=1,
        interleave_moe_layer_step=1,
        attention_chunk_size=512,
    )
    model = model_of(found)
    assert counts(model)["window attention"] == 3
    assert bytes_per_token(found) == 1 * 2 * 2 * 16 * 2
    assert any("256 tokens in the mean" in text for text in model.assumptions)


def test_gpt_oss_alternates_and_names_its_experts_its_own_way() -> None:
    found = config("gpt_oss", num_local_experts=8, experts_per_token=2, sliding_window=128)
    model = model_of(found)
    assert counts(model)["window attention"] == counts(model)["attention"] == 2
    assert model.parameters() == size(TABLES, (QKVO + block(96) * 8 + [(8, 64)]) * 4)


def test_gemma4_sees_the_whole_context_with_wide_heads_and_one_matrix_for_keys_and_values() -> None:
    found = config(
        "gemma4",
        layer_types=["sliding_attention", "sliding_attention", "full_attention", "full_attention"],
        sliding_window=32,
        global_head_dim=32,
        num_global_key_value_heads=1,
        attention_k_eq_v=True,
        enable_moe_block=True,
        num_experts=8,
        top_k_experts=2,
        moe_intermediate_size=24,
    )
    wide: Shapes = [(8 * 32, 64), (32, 64), (64, 8 * 32)]
    feed = block(96) + block(24) * 8 + [(8, 64)]
    assert model_of(found).parameters() == size(TABLES, QKVO * 2, wide * 2, feed * 4)
    assert bytes_per_token(found) == 2 * 32 * 2


def test_minimax_m2_counts_the_draft_modules_that_it_uses() -> None:
    keys = {"num_local_experts": 8, "num_experts_per_tok": 2, "num_mtp_modules": 3}
    found = config("minimax_m2", use_mtp=True, mtp_transformer_layers=1, **keys)
    layer = QKVO + block(96) * 8 + [(8, 64)]
    model = model_of(found)
    assert model.parameters() == size(TABLES, layer * 4)
    assert model.draft_parameters() == 3 * size([(64, 128)], layer)
    assert any("like the last layer" in text for text in model.assumptions)
    unused = model_of(config("minimax_m2", use_mtp=False, **keys))
    assert (unused.draft_parameters(), unused.assumptions) == (0, ())


def test_a_draft_is_a_pass_of_its_own_that_reads_the_head_again() -> None:
    found = config("qwen3", num_nextn_predict_layers=2)
    model, precision = read(found)
    place, step = Place(Layout(), DEVICE, precision), Step(4.0, 128.0)
    asked = dict(model.draft_accounts(step, place))
    assert list(asked) == [
        "draft projection",
        "draft attention",
        "draft feed-forward",
        "draft head",
    ]
    assert asked["draft head"].hbm_bytes == 64_000 * 2
    assert asked["draft head"].resident_bytes == 0
    without = model_of(config("qwen3"))
    bare, whole = (floor(one, step, place).whole for one in (without, model))
    assert whole == bare


def test_minimax_m3_keeps_a_key_for_its_index_in_sparse_layers_alone() -> None:
    found = config(
        "minimax_m3",
        moe_layer_freq=[0, 1, 1, 1],
        dense_intermediate_size=200,
        shared_intermediate_size=40,
        n_shared_experts=1,
        num_local_experts=8,
        num_experts_per_tok=2,
        num_mtp_modules=1,
        sparse_attention_config={
            "use_sparse_attention": True,
            "sparse_attention_freq": [0, 1, 1, 1],
            "sparse_num_index_heads": 2,
            "sparse_index_dim": 16,
            "sparse_topk_blocks": 4,
            "sparse_block_size": 8,
        },
    )
    model = model_of(found)
    dense = QKVO + block(200)
    index: Shapes = [(2 * 16, 64), (16, 64), (2, 64)]
    sparse = QKVO + index + block(96) * 8 + block(40) + [(8, 64)]
    assert model.parameters() == size(TABLES, dense, sparse * 3)
    assert model.draft_parameters() == size([(64, 128)], sparse)
    key = 16 + 4  # an index key of 16 in fp8 and its float32 scale
    assert bytes_per_token(found) == 4 * 2 * 2 * 16 * 2 + 3 * key
    precision = read(found)[1]
    parts = dict(model.accounts(Step(1.0, 4096.0), Place(Layout(), DEVICE, precision)))
    read_a_layer = parts["sparse attention"].sequence_bytes / 3
    assert read_a_layer == (4 * 8 + 1) * 2 * 2 * 16 * 2 + (4096 + 1) * key


def test_mimo_v2_has_heads_of_their_own_in_windows_and_narrower_values() -> None:
    found = config(
        "mimo_v2_flash",
        v_head_dim=8,
        hybrid_layer_pattern=[0, 1, 1, 0],
        moe_layer_freq=[0, 1, 1, 1],
        sliding_window=32,
        swa_num_key_value_heads=4,
        swa_head_dim=16,
        swa_v_head_dim=8,
        n_routed_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=24,
    )
    full: Shapes = [(128, 64), (32, 64), (16, 64), (64, 64)]
    window: Shapes = [(128, 64), (64, 64), (32, 64), (64, 64)]
    experts = block(24) * 8 + [(8, 64)]
    assert model_of(found).parameters() == size(
        TABLES, full * 2, window * 2, block(96), experts * 3
    )
    assert bytes_per_token(found) == 2 * 2 * (16 + 8) * 2


def test_step3_has_a_shared_expert_and_dense_layers_first() -> None:
    found = config(
        "step3p7",
        layer_types=["full_attention"] + ["sliding_attention"] * 3,
        sliding_window=32,
        first_k_dense_replace=1,
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=24,
        share_expert_dim=24,
    )
    experts = block(24) * 9 + [(8, 64)]
    assert model_of(found).parameters() == size(TABLES, QKVO * 4, block(96), experts * 3)


def test_nemotron_nas_leaves_blocks_out_and_puts_matrices_in_their_place() -> None:
    def one(attention: Mapping[str, Any], ffn: Mapping[str, Any]) -> dict[str, Any]:
        return {"attention": dict(attention), "ffn": dict(ffn)}

    blocks = [
        one({"n_heads_in_group": 4}, {"ffn_mult": 6.0}),
        one({"n_heads_in_group": None, "no_op": True}, {"ffn_mult": 1.5}),
        one({"replace_with_linear": True}, {"no_op": True}),
        one({"n_heads_in_group": 8}, {"replace_with_linear": True}),
    ]
    found = config("nemotron-nas", block_configs=blocks, head_dim=..., num_key_value_heads=None)
    whole: Shapes = [(64, 64), (16, 64), (16, 64), (64, 64)]
    one_head: Shapes = [(64, 64), (8, 64), (8, 64), (64, 64)]
    expected = size(TABLES, whole, block(256), block(256), [(64, 64)], one_head, [(64, 64)])
    assert model_of(found).parameters() == expected
    assert bytes_per_token(found) == (2 + 1) * 2 * 8 * 2


LATENT = {
    "num_key_value_heads": 8,
    "head_dim": ...,
    "q_lora_rank": 24,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 12,
    "first_k_dense_replace": 1,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
}
MLA: Shapes = [
    (24, 64),
    (8 * 24, 24),
    (32 + 8, 64),
    (8 * (16 + 12), 32),
    (64, 8 * 12),
]
ROUTED = block(24) * 8 + block(48) + [(8, 64)]
INDEX: Shapes = [(4 * 16, 24), (16, 64), (4, 64)]


def test_deepseek_v3_keeps_one_latent_and_counts_its_draft_layer_apart() -> None:
    found = config("deepseek_v3", num_nextn_predict_layers=1, **LATENT)
    model = model_of(found)
    assert model.parameters() == size(TABLES, MLA * 4, block(96), ROUTED * 3)
    assert model.draft_parameters() == size([(64, 128)], MLA, ROUTED)
    assert bytes_per_token(found) == 4 * (32 + 8) * 2
    assert model_of(config("kimi_k2", **LATENT)).parameters() == model.parameters()


def test_queries_without_a_low_rank_are_one_matrix() -> None:
    found = config("deepseek_v2", **{**LATENT, "q_lora_rank": None})
    straight = [(8 * 24, 64), *MLA[2:]]
    assert model_of(found).parameters() == size(TABLES, straight * 4, block(96), ROUTED * 3)


def test_an_indexer_adds_keys_and_a_layer_that_borrows_its_picks_has_none() -> None:
    index = {"index_n_heads": 4, "index_head_dim": 16, "index_topk": 64}
    every = config("deepseek_v32", **LATENT, **index)
    some = config(
        "glm_moe_dsa",
        **{**LATENT, "first_k_dense_replace": None},
        **index,
        indexer_types=["full", "full", "shared", "shared"],
        mlp_layer_types=["dense", "sparse", "sparse", "sparse"],
    )
    plain = size(TABLES, MLA * 4, block(96), ROUTED * 3)
    assert model_of(every).parameters() == plain + size(INDEX * 4)
    assert model_of(some).parameters() == plain + size(INDEX * 2)
    assert bytes_per_token(every) == 4 * (40 * 2 + 16 + 4)  # a latent, an index key and its scale
    assert bytes_per_token(some) == 4 * 40 * 2 + 2 * (16 + 4)


V4 = {
    "num_key_value_heads": 1,
    "head_dim": 32,
    "intermediate_size": ...,
    "q_lora_rank": 24,
    "qk_rope_head_dim": 8,
    "o_groups": 4,
    "o_lora_rank": 20,
    "sliding_window": 16,
    "compress_ratios": [0, 4, 128, 4, 0],
    "index_n_heads": 4,
    "index_head_dim": 16,
    "index_topk": 64,
    "hc_mult": 2,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "num_nextn_predict_layers": 1,
}


def test_deepseek_v4_compresses_its_context_by_layer() -> None:
    found = config("deepseek_v4", **V4)
    window: Shapes = [(24, 64), (8 * 32, 24), (32, 64), (4 * 20, 8 * 32 // 4), (64, 4 * 20)]
    heavy: Shapes = [(32, 64), (32, 64), (128, 32)]
    light: Shapes = [(64, 64), (64, 64), (4, 64)]
    picks: Shapes = [(4 * 16, 24), (4, 64), (32, 64), (32, 64), (4, 32)]
    streams: Shapes = [((2 + 2) * 2, 2 * 64)] * 2
    layers = size(window * 4, heavy, light * 2, picks * 2, ROUTED * 4, streams * 4)
    assert model_of(found).parameters() == size(TABLES) + layers
    key = 16 * (0.5 + 1 / 32)
    assert bytes_per_token(found) == pytest.approx(2 * (64 + key) / 4 + 64 / 128)


def test_one_residual_stream_needs_no_mixing() -> None:
    several = model_of(config("deepseek_v4", **V4))
    one = model_of(config("deepseek_v4", **{**V4, "hc_mult": 1}))
    assert "residual streams" in counts(several)
    assert "residual streams" not in counts(one)


def test_deepseek_v4_pro_keeps_9_62_gib_for_a_million_tokens() -> None:
    # Stated for BF16 entries and index keys: 30 layers of 4 tokens to an entry, 31 of 128.
    found = config("deepseek_v4", **V4, num_hidden_layers=61) | {
        "hidden_size": 7168,
        "num_attention_heads": 128,
        "head_dim": 512,
        "index_n_heads": 64,
        "index_head_dim": 128,
        "index_topk": 1024,
        "compress_ratios": [128, 128, *[4, 128] * 29, 4, 0],
    }
    model, precision = read(found)
    parts = [
        replace(
            part,
            module=replace(module, index=module.index and replace(module.index, key_bytes=256.0)),
        )
        if isinstance(module := part.module, CompressedAttention)
        else part
        for part in model.parts
    ]
    place = Place(Layout(), DEVICE, precision)
    whole = floor(replace(model, parts=parts), Step(1.0, 2.0**20), place).whole
    assert whole.cache_bytes_per_token * 2**20 == pytest.approx(9.62 * 2**30, rel=1e-3)


KIMI = {
    "num_key_value_heads": 8,
    "head_dim": ...,
    "num_experts": 8,
    "num_experts_per_token": 2,
    "num_shared_experts": 2,
    "linear_attn_config": {
        "full_attn_layers": [4],
        "kda_layers": [1, 2, 3],
        "num_heads": 4,
        "head_dim": 16,
        "short_conv_kernel_size": 4,
        "use_full_rank_gate": True,
    },
}
LATENT_ALONE = {
    key: value
    for key, value in LATENT.items()
    if key not in {"n_routed_experts", "n_shared_experts", "num_experts_per_tok"}
}


def test_kimi_mixes_delta_and_latent_attention_and_narrows_its_experts() -> None:
    keys = LATENT_ALONE | KIMI
    found = config("kimi_linear", **keys, mla_use_output_gate=True, routed_expert_hidden_size=32)
    delta: Shapes = [(64, 64)] * 3 + [(64, 4)] * 3  # queries, keys, values and their convolutions
    delta += [(16, 64), (64, 16), (4, 64), (64, 64), (64, 64)]  # decay, rate, gate, output
    narrow = block(24, 32) * 8 + block(48) + [(8, 64), (32, 64), (64, 32)]
    gated = [*MLA, (8 * 12, 64)]
    assert model_of(found).parameters() == size(TABLES, delta * 3, gated, block(96), narrow * 3)
    assert bytes_per_token(found) == 1 * 40 * 2


def test_a_gate_through_a_rank_is_two_matrices() -> None:
    keys = LATENT_ALONE | KIMI
    full = model_of(config("kimi_linear", **keys)).parameters()
    ranked = {**KIMI["linear_attn_config"], "use_full_rank_gate": False}  # type: ignore[dict-item]
    less = model_of(config("kimi_linear", **{**keys, "linear_attn_config": ranked})).parameters()
    assert full - less == 3 * (64 * 64 - (16 * 64 + 64 * 16))


def test_qwen_next_keeps_a_state_in_linear_layers_and_a_gate_in_full_ones() -> None:
    found = config(
        "qwen3_next",
        linear_num_key_heads=2,
        linear_key_head_dim=8,
        linear_num_value_heads=4,
        linear_value_head_dim=8,
        linear_conv_kernel_dim=4,
        mtp_num_hidden_layers=1,
    )
    delta: Shapes = [
        (16, 64),
        (16, 64),
        (32, 64),
        (32, 64),
        (4, 64),
        (4, 64),
        (64, 64 // 2),
        (64, 4),
    ]
    gated: Shapes = [(2 * 128, 64), *QKVO[1:]]
    model, precision = read(found)
    assert model.parameters() == size(TABLES, delta * 3, gated, block(96) * 4)
    assert model.draft_parameters() == size([(64, 128)], gated, block(96))
    whole = floor(model, Step(1.0, 4096.0), Place(Layout(), DEVICE, precision)).whole
    assert whole.state_bytes_per_sequence == 3 * 4 * 8 * 8 * 4
    assert whole.cache_bytes_per_token == 1 * 2 * 2 * 16 * 2


FORGETS = {"attention": {"no_op": True}, "ffn": {"ffn_mult": 1.5}}
NEMOTRON = {
    "mamba_num_heads": 4,
    "mamba_head_dim": 8,
    "ssm_state_size": 16,
    "n_groups": 2,
    "conv_kernel": 4,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "moe_shared_expert_intermediate_size": 40,
    "n_shared_experts": 1,
    "moe_latent_size": 32,
}
MAMBA: Shapes = [(2 * 32 + 2 * 2 * 16 + 4, 64), (32 + 2 * 2 * 16, 4), (64, 32)]


def test_nemotron_h_has_one_module_a_layer_as_its_pattern_says() -> None:
    found = config("nemotron_h", hybrid_override_pattern="M*E-", **NEMOTRON)
    experts = [(24, 32), (32, 24)] * 8 + [(40, 64), (64, 40), (8, 64), (32, 64), (64, 32)]
    whole = size(TABLES, MAMBA, QKVO, experts, [(96, 64), (64, 96)])
    assert model_of(found).parameters() == whole
    listed = config(
        "nemotron_h",
        num_hidden_layers=...,
        layers_block_type=["mamba", "attention", "moe", "mlp"],
        mtp_layers_block_type=["attention", "moe"],
        num_nextn_predict_layers=1,
        **NEMOTRON,
    )
    assert model_of(listed).parameters() == whole
    assert model_of(listed).draft_parameters() == size([(64, 128)], QKVO, experts)


def test_falcon_h1_has_attention_and_a_state_space_side_by_side() -> None:
    found = config("falcon_h1", mamba_d_ssm=32, mamba_n_heads=4, mamba_d_state=16, mamba_n_groups=2)
    assert model_of(found).parameters() == size(TABLES, (QKVO + MAMBA + block(96)) * 4)


def test_mamba2_has_a_state_space_in_each_layer_and_no_cache() -> None:
    found = {key: BASE[key] for key in ("hidden_size", "num_hidden_layers", "vocab_size")} | {
        "model_type": "mamba2",
        "num_heads": 4,
        "head_dim": 8,
        "state_size": 16,
        "n_groups": 2,
        "conv_kernel": 4,
    }
    model, precision = read(found)
    assert model.parameters() == size(TABLES, MAMBA * 4)
    whole = floor(model, Step(1.0, 4096.0), Place(Layout(), DEVICE, precision)).whole
    assert whole.cache_bytes_per_token == 0
    assert whole.state_bytes_per_sequence == 4 * 4 * 8 * 16 * 4


# Sizes as the publishers' config.json state them, and the totals (and active parameters) of their model cards.
PUBLISHED: list[tuple[str, dict[str, Any], float, float | None]] = [
    (
        "qwen2",
        {
            "hidden_size": 3584,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "head_dim": ...,
            "intermediate_size": 18944,
            "vocab_size": 152064,
        },
        7.61e9,
        None,
    ),
    (
        "phi3",
        {
            "hidden_size": 3072,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
            "head_dim": ...,
            "intermediate_size": 8192,
            "vocab_size": 32064,
        },
        3.8e9,
        None,
    ),
    (
        "gemma2",
        {
            "hidden_size": 3584,
            "num_hidden_layers": 42,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 256,
            "intermediate_size": 14336,
            "vocab_size": 256000,
            "sliding_window": 4096,
            "tie_word_embeddings": ...,
        },
        9.24e9,
        None,
    ),
    (
        "olmo2",
        {
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
            "head_dim": ...,
            "intermediate_size": 11008,
            "vocab_size": 100352,
        },
        7.3e9,
        None,
    ),
    (
        "olmoe",
        {
            "hidden_size": 2048,
            "num_hidden_layers": 16,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "head_dim": ...,
            "intermediate_size": 1024,
            "vocab_size": 50304,
            "num_experts": 64,
            "num_experts_per_tok": 8,
        },
        6.9e9,
        1.3e9,
    ),
    (
        "qwen2_moe",
        {
            "hidden_size": 2048,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "head_dim": ...,
            "moe_intermediate_size": 1408,
            "shared_expert_intermediate_size": 5632,
            "num_experts": 60,
            "num_experts_per_tok": 4,
            "vocab_size": 151936,
        },
        14.3e9,
        2.7e9,
    ),
    (
        "deepseek_v2",
        {
            "hidden_size": 5120,
            "num_hidden_layers": 60,
            "num_attention_heads": 128,
            "num_key_value_heads": 128,
            "head_dim": ...,
            "q_lora_rank": 1536,
            "kv_lora_rank": 512,
            "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 128,
            "v_head_dim": 128,
            "intermediate_size": 12288,
            "moe_intermediate_size": 1536,
            "n_routed_experts": 160,
            "n_shared_experts": 2,
            "num_experts_per_tok": 6,
            "first_k_dense_replace": 1,
            "vocab_size": 102400,
        },
        236e9,
        21e9,
    ),
    (
        "glm4_moe",
        {
            "hidden_size": 5120,
            "num_hidden_layers": 92,
            "num_attention_heads": 96,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "intermediate_size": 12288,
            "moe_intermediate_size": 1536,
            "n_routed_experts": 160,
            "n_shared_experts": 1,
            "num_experts_per_tok": 8,
            "first_k_dense_replace": 3,
            "vocab_size": 151552,
        },
        355e9,
        32e9,
    ),
    (
        "qwen3_next",
        {
            "hidden_size": 2048,
            "num_hidden_layers": 48,
            "num_attention_heads": 16,
            "num_key_value_heads": 2,
            "head_dim": 256,
            "linear_num_key_heads": 16,
            "linear_key_head_dim": 128,
            "linear_num_value_heads": 32,
            "linear_value_head_dim": 128,
            "linear_conv_kernel_dim": 4,
            "moe_intermediate_size": 512,
            "shared_expert_intermediate_size": 512,
            "num_experts": 512,
            "num_experts_per_tok": 10,
            "vocab_size": 151936,
        },
        80e9,
        3.9e9,
    ),
    (
        "kimi_linear",
        {
            "hidden_size": 2304,
            "num_hidden_layers": 27,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
            "head_dim": ...,
            "q_lora_rank": None,
            "kv_lora_rank": 512,
            "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 128,
            "v_head_dim": 128,
            "intermediate_size": 9216,
            "moe_intermediate_size": 1024,
            "num_experts": 256,
            "num_shared_experts": 1,
            "num_experts_per_token": 8,
            "first_k_dense_replace": 1,
            "vocab_size": 163840,
            "linear_attn_config": {
                "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
                "kda_layers": [i for i in range(1, 27) if i % 4],
                "num_heads": 32,
                "head_dim": 128,
                "short_conv_kernel_size": 4,
            },
        },
        49e9,
        3e9,
    ),
]


@pytest.mark.parametrize(
    ("family", "keys", "total", "active"), PUBLISHED, ids=[row[0] for row in PUBLISHED]
)
def test_a_published_model_comes_to_its_published_size(
    family: str, keys: dict[str, Any], total: float, active: float | None
) -> None:
    model = model_of(config(family, **keys))
    assert model.parameters() == pytest.approx(total, rel=0.01)
    if active:
        tables = model.parts[0].module.parameters()  # cards count the embedding, or neither table
        met = model.active_parameters()
        assert any(
            value == pytest.approx(active, rel=0.04) for value in (met, met + tables, met - tables)
        )


def test_equal_modules_in_equal_formats_are_one_part_and_names_are_told_apart() -> None:
    found = config(
        "mimo_v2_flash",
        hybrid_layer_pattern=[0, 0, 0, 0],
        n_routed_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=24,
        sliding_window=8,
        moe_layer_freq=[0, 1, 0, 1],
    )
    model = model_of(found)
    assert counts(model) == {
        "embedding": 1,
        "attention": 4,
        "feed-forward": 2,
        "experts": 2,
        "head": 1,
    }
    with pytest.raises(ValueError, match="parts of one name"):
        Model("twice", 64, [*model.parts, model.parts[0]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "elm"}, r"model_type: 'elm' is not declared\n.*llama"),
        ({"model_type": None}, "model_type"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"hidden_size": "64"}, "hidden_size: '64' is no whole number"),
        ({"hidden_size": True}, "hidden_size: True is no whole number"),
        ({"hidden_size": 64.0}, "hidden_size: 64.0 is no whole number"),
        (
            {"num_hidden_layers": 10**6},
            "num_hidden_layers: 1000000 is no whole number from 1 to 512",
        ),
        ({"num_attention_heads": 0}, "num_attention_heads: 0"),
        ({"num_key_value_heads": 16}, "num_key_value_heads: 16 is no whole number from 1 to 8"),
        ({"head_dim": None, "num_attention_heads": 7}, "no multiple of the heads"),
        ({"tie_word_embeddings": "no"}, "neither true nor false"),
        ({"torch_dtype": "float8"}, "dtype: 'float8' is not declared"),
        ({"new_attention": 3}, r"new_attention: not declared for this architecture\n.*declare it"),
        ({"new_attention": False}, "new_attention: not declared"),
        ({"layer_types": ["full_attention"] * 4}, "layer_types: .* is not declared"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder: True is not declared"),
        ({"audio_config": {}}, "audio_config"),
        ({"vision_config": {}}, "no encoder is declared"),
        ({"text_config": 3}, "text_config: not a mapping but 3"),
        ({"quantization_config": 3}, "quantization_config: not a mapping"),
    ],
)
def test_what_is_wrong_or_not_declared_is_refused_with_its_key(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read({**config("llama"), **changes})


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (config("qwen3", layer_types=["full_attention"] * 3), "tells of 3 layers, there are 4"),
        (config("qwen3", layer_types=["retention"] * 4), "'retention' is not declared"),
        (config("qwen3", layer_types="full"), "is no list"),
        (
            {"model_type": "qwen3_vl", "text_config": config("x"), "tie_word_embeddings": True},
            "tie_word_embeddings and text_config.tie_word_embeddings disagree",
        ),
        (config("gemma2"), "sliding_window is missing and layers have a window"),
        (config("mixtral", num_local_experts=8, num_experts_per_tok=9), "from 1 to 8"),
        (config("mixtral", num_local_experts=8, num_experts=4, num_experts_per_tok=2), "disagree"),
        (
            config("gemma4", sliding_window=8, hidden_size_per_layer_input=256),
            "256 is not declared",
        ),
        (config("gemma4", sliding_window=8, num_kv_shared_layers=2), "2 is not declared"),
        (config("mimo_v2_flash"), "hybrid_layer_pattern is missing"),
        (config("nemotron-nas", block_configs=[]), "not a list of 4 blocks"),
        (
            config("nemotron-nas", block_configs=[FORGETS] * 4, head_dim=...),
            "no layer keeps a cache or a state",
        ),
        (config("nemotron-nas", block_configs=[{}] * 4), "attention or ffn is missing"),
        (config("nemotron-nas", block_configs=[{"attention": {}, "ffn": {}}] * 4), "ffn_mult"),
        (
            config("nemotron-nas", block_configs=[{"attention": {}, "ffn": {"ffn_mult": -1}}] * 4),
            "-1 is no number above 0",
        ),
        (
            config(
                "nemotron_h",
                hybrid_override_pattern="MMMM",
                mtp_hybrid_override_pattern="*",
                **NEMOTRON,
            ),
            "a kind that the model lacks",
        ),
        (config("nemotron_h", hybrid_override_pattern="MX"), "not a text of M"),
        (config("nemotron_h", hybrid_override_pattern="MM", **NEMOTRON), "is not the pattern's 2"),
        (config("nemotron_h", **NEMOTRON), "layers_block_type is missing"),
        (
            config("nemotron_h", mamba_ssm_cache_dtype="bfloat16", **NEMOTRON),
            "mamba_ssm_cache_dtype: 'bfloat16' is not declared",
        ),
        (config("deepseek_v4", **{**V4, "compress_ratios": [0, 4, 16, 4]}), "16 is not declared"),
        (config("deepseek_v4", **{**V4, "compress_ratios": None}), "compress_ratios is missing"),
        (config("kimi_linear", **LATENT_ALONE), "linear_attn_config is missing"),
        (
            config("kimi_linear", **LATENT_ALONE, num_experts=8, num_experts_per_token=2)
            | {"linear_attn_config": {"full_attn_layers": [1], "kda_layers": [1, 2, 3]}},
            "are not all layers once",
        ),
        (
            config("glm_moe_dsa", **LATENT, layer_types=["deepseek_sparse_attention"] * 4),
            "index_topk",
        ),
        (config("falcon_h1", mamba_d_ssm=30, mamba_n_heads=4, mamba_d_state=16), "mamba_d_ssm"),
        ([], "not a mapping"),
    ],
)
def test_a_family_refuses_what_it_cannot_account(found: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(found)


def test_a_missing_dtype_is_an_assumption_that_the_model_carries() -> None:
    assert any(
        "bfloat16" in text for text in model_of(config("llama", torch_dtype=...)).assumptions
    )
