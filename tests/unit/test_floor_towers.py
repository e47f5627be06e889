"""Encoders of images: as large as published, in memory, and in no decode step."""

from __future__ import annotations

from typing import Any

import pytest

from layers.floor.configs import ConfigError, read
from layers.floor.floors import floor
from layers.floor.hardware import Hardware
from layers.floor.layout import Layout
from layers.floor.modules import Place, Step

TEXT = {
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "head_dim": 16,
    "intermediate_size": 16,
    "vocab_size": 10,
}
CHOSEN = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 8}
LATENT = {
    "q_lora_rank": 8,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "n_routed_experts": 2,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 8,
}
QWEN = {
    "depth": 27,
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "in_channels": 3,
    "patch_size": 16,
    "temporal_patch_size": 2,
    "spatial_merge_size": 2,
    "num_position_embeddings": 2304,
    "num_heads": 16,
}
SIGLIP = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 14}

# The sizes of the publishers' files, and the parameters of the tower by their model cards (of Qwen3-VL and
# Qwen2.5-VL those of the whole model less those of the language model in it), or by hand.
TOWERS: dict[str, tuple[int, dict[str, Any], dict[str, Any], float, float]] = {
    "qwen3_vl": (
        4096,
        {},
        {**QWEN, "deepstack_visual_indexes": [8, 16, 24]},
        8.767e9 - 8.191e9,
        0.01,
    ),
    "qwen3_5_moe": (
        2048,
        CHOSEN
        | dict.fromkeys(("linear_num_key_heads", "linear_key_head_dim"), 4)
        | dict.fromkeys(("linear_num_value_heads", "linear_value_head_dim"), 4)
        | {"linear_conv_kernel_dim": 4},
        {**QWEN, "deepstack_visual_indexes": []},
        27 * (4 * 1152**2 + 2 * 1152 * 4304) + (1536 + 2304) * 1152 + 4608 * (4608 + 2048),
        1e-9,
    ),
    "qwen2_5_vl": (
        3584,
        {},
        {
            "depth": 32,
            "hidden_size": 1280,
            "intermediate_size": 3420,
            "in_chans": 3,
            "patch_size": 14,
            "out_hidden_size": 3584,
        },
        8.292e9 - 7.616e9,
        0.01,
    ),
    "gemma3": (5376, {"sliding_window": 8}, {**SIGLIP, "image_size": 896}, 0.417e9, 0.03),
    "gemma4": (
        2816,
        {"sliding_window": 8},
        {**SIGLIP, "patch_size": 16, "position_embedding_size": 10240, "num_attention_heads": 16},
        0.55e9,
        0.05,
    ),
    "llama4": (
        5120,
        {
            "intermediate_size_mlp": 8,
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
            "interleave_moe_layer_step": 1,
        },
        {
            "hidden_size": 1408,
            "intermediate_size": 5632,
            "num_hidden_layers": 34,
            "patch_size": 14,
            "image_size": 336,
            "projector_input_dim": 4096,
            "projector_output_dim": 4096,
            "vision_output_dim": 4096,
        },
        34 * (4 * 1408**2 + 2 * 1408 * 5632)
        + (588 + 24**2) * 1408
        + (5632 * 4096 + 4096 * 4096 + 4096 * 5120),
        1e-9,
    ),
    "mistral3": (
        5120,
        {},
        {
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_hidden_layers": 24,
            "patch_size": 14,
            "num_channels": 3,
            "num_attention_heads": 16,
        },
        0.439e9,
        0.02,
    ),
    "kimi_k25": (
        7168,
        LATENT,
        {
            "vt_hidden_size": 1152,
            "vt_intermediate_size": 4304,
            "vt_num_hidden_layers": 27,
            "mm_hidden_size": 1152,
            "init_pos_emb_height": 64,
            "init_pos_emb_width": 64,
            "merge_kernel_size": [2, 2],
            "patch_size": 14,
        },
        0.417e9 + 0.054e9,  # MoonViT, the 400M of SigLIP, and the projector
        0.02,
    ),
    "minimax_m3_vl": (
        6144,
        {
            "shared_intermediate_size": 8,
            "dense_intermediate_size": 8,
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
        },
        {
            "hidden_size": 1280,
            "intermediate_size": 5120,
            "num_hidden_layers": 32,
            "num_channels": 3,
            "patch_size": 14,
            "projection_dim": 6144,
            "img_token_compression_config": {"temporal_patch_size": 2, "spatial_merge_size": 2},
        },
        32 * (4 * 1280**2 + 2 * 1280 * 5120)
        + 2 * 588 * 1280
        + (1280 * 6144 + 6144 * 6144)
        + (4 * 6144 * 6144 + 6144 * 6144),
        1e-9,
    ),
}


@pytest.mark.parametrize("family", TOWERS)
def test_a_tower_is_as_large_as_published_in_memory_and_in_no_step(family: str) -> None:
    hidden, keys, vision, published, tolerance = TOWERS[family]
    text = {**TEXT, "hidden_size": hidden, **keys}
    seeing, stored = read({"model_type": family, "text_config": text, "vision_config": vision})
    blind, _ = read({"model_type": family, "text_config": text})
    tower = seeing.parameters() - blind.parameters()
    assert tower == pytest.approx(published, rel=tolerance)
    assert seeing.active_parameters() == blind.active_parameters()

    place = Place(Layout(), Hardware("any", 1e15, 1e12, {"fp8": 1e15, "bf16": 1e15}), stored)
    whole, bare = (floor(model, Step(8.0, 512.0), place).whole for model in (seeing, blind))
    assert (whole.hbm_bytes, whole.flops) == (bare.hbm_bytes, bare.flops)
    assert whole.resident_bytes - bare.resident_bytes == pytest.approx(2 * tower)
    assert any("vision_config" in text for text in blind.assumptions)


def test_a_key_of_a_tower_that_is_not_declared_is_refused_with_its_place() -> None:
    text = {**TEXT, "hidden_size": 64}
    vision = {**QWEN, "mixture_of_eyes": 2}
    with pytest.raises(ConfigError, match=r"vision_config\.mixture_of_eyes: not declared"):
        read({"model_type": "qwen3_vl", "text_config": text, "vision_config": vision})
    clipped = {**SIGLIP, "position_embedding_size": 8, "use_clipped_linears": True}
    with pytest.raises(ConfigError, match="use_clipped_linears: True is not declared"):
        read(
            {
                "model_type": "gemma4",
                "text_config": {**text, "sliding_window": 8},
                "vision_config": clipped,
            }
        )


def test_the_encoder_of_an_older_layout_has_the_language_model_beside_it() -> None:
    text = {**TEXT, "hidden_size": 3584}
    vision = TOWERS["qwen2_5_vl"][2]
    nested, _ = read({"model_type": "qwen2_5_vl", "text_config": text, "vision_config": vision})
    beside, _ = read({"model_type": "qwen2_5_vl", **text, "vision_config": vision})
    assert nested.parts == beside.parts
