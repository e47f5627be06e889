"""Encoders of images: their parameters, as far as a configuration states their sizes.

Biases, norms and position tables of a few rows are left out. Sources: the vision models of Hugging
Face transformers that each function names.
"""

from __future__ import annotations

from layers.floor.configs.keys import MOST_LAYERS, Keys
from layers.floor.modules import Tower


def _blocks(layers: int, hidden: int, inner: int, *, gated: bool = False, qkv: int = 0) -> float:
    """Return the matrices of attention and of the feed-forward block of all layers."""
    return layers * (4.0 * hidden * (qkv or hidden) + (3 if gated else 2) * hidden * inner)


def _layers(keys: Keys, *names: str) -> int:
    return keys.count(*names, most=MOST_LAYERS)


def qwen(keys: Keys, hidden: int) -> Tower:
    """Return Qwen3-VL's tower: a merger of 2 x 2 patches behind it and behind each deep-stack layer."""
    width, inner = keys.count("hidden_size"), keys.count("intermediate_size")
    patch = keys.count("in_channels") * keys.count("temporal_patch_size")
    patch *= keys.count("patch_size") ** 2
    merged = width * keys.count("spatial_merge_size") ** 2
    mergers = 1 + len(keys.choices("deepstack_visual_indexes", range(MOST_LAYERS)) or [])
    positions = keys.count("num_position_embeddings")
    size = _blocks(_layers(keys, "depth"), width, inner) + (patch + positions) * width
    keys.pass_over("num_heads")
    return Tower(
        "vision", size + mergers * merged * (merged + keys.count("out_hidden_size", default=hidden))
    )


def qwen2_5(keys: Keys, hidden: int) -> Tower:
    """Return Qwen2.5-VL's tower: gated blocks, then a merger of 2 x 2 patches."""
    width = keys.count("hidden_size")
    inner = keys.count("intermediate_size")
    patch = keys.count("in_channels", "in_chans", default=3) * keys.count("patch_size") ** 2
    patch *= keys.count("temporal_patch_size", default=2)
    merged = width * keys.count("spatial_merge_size", default=2) ** 2
    keys.pass_over("num_heads", "spatial_patch_size", "window_size", "fullatt_block_indexes")
    keys.pass_over("tokens_per_second")
    size = _blocks(_layers(keys, "depth"), width, inner, gated=True) + patch * width
    return Tower("vision", size + merged * (merged + keys.count("out_hidden_size", default=hidden)))


def gemma4(keys: Keys, hidden: int) -> Tower:
    """Return Gemma 4's tower: gated blocks, a table of positions for each axis."""
    keys.refuse("use_clipped_linears", unless=False)
    width = keys.count("hidden_size")
    size = _blocks(
        _layers(keys, "num_hidden_layers"), width, keys.count("intermediate_size"), gated=True
    )
    patch = 3 * keys.count("patch_size") ** 2
    positions = 2 * keys.count("position_embedding_size")
    keys.pass_over("num_attention_heads", "num_key_value_heads", "head_dim", "global_head_dim")
    keys.pass_over(
        "pooling_kernel_size", "standardize", "default_output_length", "video_seq_length"
    )
    keys.pass_over("architectures", "is_encoder_decoder")
    return Tower("vision", size + (patch + positions + hidden) * width)


def kimi(keys: Keys, hidden: int) -> Tower:
    """Return MoonViT: a grid of positions, 2 x 2 patches merged by two matrices."""
    width = keys.count("vt_hidden_size")
    inner = keys.count("vt_intermediate_size")
    qkv = keys.count("qkv_hidden_size", default=width)
    size = _blocks(_layers(keys, "vt_num_hidden_layers"), width, inner, qkv=qkv)
    grid = keys.count("init_pos_emb_height") * keys.count("init_pos_emb_width")
    patch = 3 * keys.count("patch_size") ** 2
    sides = keys.choices("merge_kernel_size", range(1, 17)) or [2, 2]
    merged = keys.count("mm_hidden_size") * sides[0] * sides[-1]
    keys.refuse("mlp_type", unless="mlp2")
    keys.pass_over("vt_num_attention_heads", "init_pos_emb_time", "pos_emb_type", "merge_type")
    keys.pass_over("mm_projector_type", "projector_ln_eps", "text_hidden_size", "video_attn_type")
    keys.pass_over("activation_func", "attn_bias", "linear_bias", "norm_type")
    keys.pass_over("patch_embed_proj_bias", "pos_emb_interpolation_mode")
    return Tower("vision", size + (grid + patch) * width + merged * (merged + hidden))


def minimax(keys: Keys, hidden: int) -> Tower:
    """Return MiniMax-M3's tower: each patch projected to the model's width, then 2 x 2 of them merged."""
    width = keys.count("hidden_size")
    size = _blocks(_layers(keys, "num_hidden_layers"), width, keys.count("intermediate_size"))
    merging = keys.section("img_token_compression_config") or Keys({})
    frames = merging.count("temporal_patch_size", default=2)
    side = merging.count("spatial_merge_size", default=2)
    merging.pass_over("image_token_compression_method")
    merging.finish()
    patch = keys.count("num_channels") * frames * keys.count("patch_size") ** 2
    inner = keys.count("projection_dim", default=hidden)
    projector = inner * (width + hidden) + inner * (side**2 * hidden + hidden)
    keys.pass_over("num_attention_heads", "image_size", "position_embedding_type", "rope_mode")
    keys.pass_over("vocab_size", "vision_segment_max_frames")
    return Tower("vision", size + patch * width + projector)


def siglip(keys: Keys, hidden: int) -> Tower:
    """Return Gemma 3's tower and its projection."""
    width, side = keys.count("hidden_size"), keys.count("patch_size")
    size = _blocks(_layers(keys, "num_hidden_layers"), width, keys.count("intermediate_size"))
    positions = (keys.count("image_size") // side) ** 2
    patch = keys.count("num_channels", default=3) * side**2
    keys.pass_over("num_attention_heads", "vision_use_head", "num_image_tokens", "num_positions")
    return Tower("vision", size + (patch + positions + hidden) * width)


def pixtral(keys: Keys, hidden: int) -> Tower:
    """Return Pixtral: gated blocks, 2 x 2 patches merged, two matrices into the model."""
    width = keys.count("hidden_size")
    inner = keys.count("intermediate_size")
    size = _blocks(_layers(keys, "num_hidden_layers"), width, inner, gated=True)
    patch = keys.count("num_channels", default=3) * keys.count("patch_size") ** 2
    keys.pass_over("num_attention_heads", "head_dim", "image_size")
    return Tower("vision", size + (patch + 4 * width + hidden) * width + hidden**2)


def llama4(keys: Keys, hidden: int) -> Tower:
    """Return Llama 4's tower, its pixel shuffle and the projection into the model."""
    width, inner = keys.count("hidden_size"), keys.count("intermediate_size")
    size = _blocks(_layers(keys, "num_hidden_layers"), width, inner)
    side = keys.count("patch_size")
    positions = (keys.count("image_size") // side) ** 2
    patch = keys.count("num_channels", default=3) * side**2
    shuffled = keys.count("projector_input_dim")
    output = keys.count("vision_output_dim", "projector_output_dim")
    keys.pass_over("num_attention_heads", "pixel_shuffle_ratio", "projector_dropout")
    keys.pass_over(
        "multi_modal_projector_bias", "vision_feature_layer", "_attn_implementation_autoset"
    )
    adapter = inner * shuffled + shuffled * output + output * hidden
    return Tower("vision", size + (patch + positions) * width + adapter)
