"""Families with latent or compressed attention: DeepSeek, Kimi, GLM-5."""

from __future__ import annotations

from dataclasses import replace

from layers.floor.configs.grouped import experts
from layers.floor.configs.keys import ConfigError, Keys
from layers.floor.configs.plan import (
    Layer,
    Plan,
    depth,
    drafts,
    feed_forward,
    predictor,
    sparse,
)
from layers.floor.modules import (
    CompressedAttention,
    DeltaNet,
    LatentAttention,
    Matrices,
    MixtureOfExperts,
    SparseIndex,
)

# DeepSeek-V4 keeps index keys in FP4 with a scale for 32 (its report); V3.2 in FP8 with a float32.
FP4_KEY = 0.5 + 1 / 32
# Tokens to an entry: an indexer picks among those of 4, all of those of 128 are read; 0: no entries.
PICKED, HEAVY = 4, 128
# A layer that takes the picks of an earlier one has no indexer of its own and keeps no keys.
NO_INDEX = SparseIndex(heads=0, width=0, top_k=0, key_bytes=0.0)


def latent_attention(keys: Keys, index: SparseIndex | None = None) -> LatentAttention:
    """Return multi-head latent attention; queries without a low rank where none is stated."""
    keys.pass_over("num_key_value_heads", "head_dim")  # of expanded heads, never kept
    return LatentAttention(
        keys.count("hidden_size"),
        keys.count("num_attention_heads"),
        keys.count("q_lora_rank", default=0, least=0),
        keys.count("kv_lora_rank"),
        keys.count("qk_rope_head_dim"),
        keys.count("qk_nope_head_dim"),
        keys.count("v_head_dim"),
        index,
        keys.flag("mla_use_output_gate", default=False),
    )


def _routed(keys: Keys) -> MixtureOfExperts:
    inner = keys.count("moe_intermediate_size")
    shared = keys.count("n_shared_experts", "num_shared_experts", default=0, least=0)
    routed = experts(keys, shared=inner * shared)
    return replace(routed, latent=keys.count("routed_expert_hidden_size", default=0, least=0))


def deepseek(keys: Keys) -> Plan:
    """Read DeepSeek-V2, V3, V3.2, Kimi K2 and GLM-5: dense layers first, shared experts, an indexer if stated."""
    has_experts = sparse(keys)
    layers = len(has_experts)
    index = _index(keys)
    routed, block = _routed(keys), feed_forward(keys)
    full = latent_attention(keys, index)
    stated = keys.choices("layer_types", ("deepseek_sparse_attention",), layers)
    if stated and not index:
        raise ConfigError(f"{keys.at('index_topk')} is missing and layers are sparse")
    borrowed = replace(full, index=replace(NO_INDEX, top_k=index.top_k)) if index else full
    found: list[Layer] = [
        (borrowed if shared else full, routed if has else block)
        for shared, has in zip(_borrowing(keys, layers), has_experts, strict=True)
    ]
    return Plan(found, [predictor(full.hidden, (full, routed))] * drafts(keys))


def _index(keys: Keys) -> SparseIndex | None:
    if not keys.has("index_topk"):
        return None
    return SparseIndex(
        keys.count("index_n_heads"), keys.count("index_head_dim"), keys.count("index_topk")
    )


def _borrowing(keys: Keys, layers: int) -> list[bool]:
    """Return which layers take the picks of an earlier one (GLM-5.2)."""
    types = keys.choices("indexer_types", ("full", "shared"), layers)
    if types is None:
        keys.refuse("index_topk_pattern", "index_topk_freq", unless=1)
        return [False] * layers
    keys.pass_over("index_topk_pattern", "index_topk_freq", "index_skip_topk_offset")
    return [kind == "shared" for kind in types]


def deepseek_v4(keys: Keys) -> Plan:
    """Read DeepSeek-V4: windows with compressed entries, several residual streams, experts everywhere."""
    layers, predicted = depth(keys), drafts(keys)
    keys.pass_over("num_key_value_heads")  # one entry for all heads, by construction
    keys.pass_over("qk_rope_head_dim", "expert_dtype")
    ratios = keys.choices("compress_ratios", (0, PICKED, HEAVY), layers)
    if ratios is None:
        raise ConfigError(f"{keys.at('compress_ratios')} is missing")
    routed = _routed(keys)
    streams = _streams(keys, routed.hidden)
    found: list[Layer] = [(_compressed(keys, ratio), routed, *streams) for ratio in ratios]
    draft = predictor(routed.hidden, (_compressed(keys, 0), routed, *streams))
    return Plan(found, [draft] * predicted)


def _streams(keys: Keys, hidden: int) -> Layer:
    """Return the mixing of `hc_mult` residual streams before attention and before experts."""
    count = keys.count("hc_mult", default=1, most=64)
    if count == 1:
        return ()
    return (Matrices("residual streams", 2 * (2 + count) * count * count * hidden),)


def _compressed(keys: Keys, ratio: int) -> CompressedAttention:
    width = keys.count("index_head_dim")
    index = SparseIndex(
        keys.count("index_n_heads"), width, keys.count("index_topk"), width * FP4_KEY
    )
    return CompressedAttention(
        keys.count("hidden_size"),
        keys.count("num_attention_heads"),
        keys.count("head_dim"),
        keys.count("q_lora_rank"),
        keys.count("o_lora_rank"),
        keys.count("o_groups"),
        keys.count("sliding_window"),
        ratio,
        index if ratio == PICKED else None,
    )


def kimi_linear(keys: Keys) -> Plan:
    """Read Kimi Linear and K3: delta attention and latent attention in turn, experts in a latent space."""
    has_experts = sparse(keys)
    layers = len(has_experts)
    linear = keys.section("linear_attn_config")
    if linear is None:
        raise ConfigError(f"{keys.at('linear_attn_config')} is missing")
    numbers = range(1, layers + 1)
    full = linear.choices("full_attn_layers", numbers) or []
    if sorted([*full, *(linear.choices("kda_layers", numbers) or [])]) != list(numbers):
        raise ConfigError(f"{linear.at('full_attn_layers')} and kda_layers are not all layers once")
    latent, delta = latent_attention(keys), _delta(linear, keys.count("hidden_size"))
    routed, block = _routed(keys), feed_forward(keys)
    found: list[Layer] = [
        (latent if i + 1 in full else delta, routed if has else block)
        for i, has in enumerate(has_experts)
    ]
    return Plan(found, [predictor(latent.hidden, (latent, routed))] * drafts(keys))


def _delta(keys: Keys, hidden: int) -> DeltaNet:
    """Return Kimi delta attention: a decay for each key channel, through the width of a head."""
    heads, width = keys.count("num_heads"), keys.count("head_dim")
    convolution = keys.count("short_conv_kernel_size")
    gate_rank = 0 if keys.flag("use_full_rank_gate", default=False) else width
    keys.pass_over("gate_lower_bound")
    keys.finish()
    return DeltaNet(
        hidden, heads, width, heads, width, convolution, decay_rank=width, gate_rank=gate_rank
    )
