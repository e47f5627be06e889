"""Families that mix attention with state spaces or linear attention: Qwen3-Next, Nemotron-H, Falcon-H1."""

from __future__ import annotations

from dataclasses import replace

from layers.floor.configs.grouped import experts
from layers.floor.configs.keys import MOST_LAYERS, ConfigError, Keys
from layers.floor.configs.plan import (
    FULL,
    LINEAR,
    Layer,
    Plan,
    attention,
    depth,
    drafts,
    feed_forward,
    kinds,
    predictor,
)
from layers.floor.modules import DeltaNet, GatedMLP, MixtureOfExperts, Module, StateSpace

STATES = "float32"  # what the account takes recurrent states to be kept in
_NEMOTRON = {"M": "mamba", "*": "attention", "E": "moe", "-": "mlp"}


def qwen_next(keys: Keys) -> Plan:
    """Read Qwen3-Next and Qwen3.5: gated delta nets, and full attention with a gate in each n-th layer."""
    layers = depth(keys)
    every = keys.count("full_attention_interval", default=4)
    default = [FULL if (i + 1) % every == 0 else LINEAR for i in range(layers)]
    stated = kinds(keys, layers, default)
    keys.refuse("mtp_use_dedicated_embeddings", unless=False)
    keys.refuse("mlp_only_layers", unless=[])
    keys.refuse("decoder_sparse_step", unless=1)
    keys.refuse("mamba_ssm_dtype", unless=STATES)
    keys.refuse("use_sliding_window", unless=False)
    keys.pass_over("max_window_layers", "sliding_window")
    full = attention(keys, gated=keys.flag("attn_output_gate", default=True))
    delta = _delta(keys)
    feed = _feed(keys)
    draft = predictor(full.hidden, (full, feed))
    return Plan(
        [(full if kind == FULL else delta, feed) for kind in stated],
        [draft] * drafts(keys, "mtp_num_hidden_layers"),
    )


def _delta(keys: Keys) -> DeltaNet:
    return DeltaNet(
        keys.count("hidden_size"),
        keys.count("linear_num_key_heads"),
        keys.count("linear_key_head_dim"),
        keys.count("linear_num_value_heads"),
        keys.count("linear_value_head_dim"),
        keys.count("linear_conv_kernel_dim"),
    )


def _feed(keys: Keys) -> GatedMLP | MixtureOfExperts:
    if not keys.has("num_experts"):
        return feed_forward(keys)
    keys.pass_over("intermediate_size")
    shared = keys.count("shared_expert_intermediate_size", default=0, least=0)
    return experts(keys, shared=shared)


def nemotron_h(keys: Keys) -> Plan:
    """Read Nemotron-H and Nemotron 3: one module a layer, as a pattern or a list says."""
    keys.refuse("mamba_ssm_cache_dtype", unless=STATES)
    kinds_of = _pattern(keys, "hybrid_override_pattern", "layers_block_type")
    if not kinds_of:
        raise ConfigError(f"{keys.at('layers_block_type')} is missing")
    if keys.has("num_hidden_layers") and depth(keys) != len(kinds_of):
        raise ConfigError(f"{keys.at('num_hidden_layers')} is not the pattern's {len(kinds_of)}")
    found = {kind: _nemotron_module(keys, kind) for kind in sorted({*kinds_of})}
    keys.pass_over("moe_shared_expert_intermediate_size", "n_shared_experts", "moe_latent_size")
    keys.pass_over("intermediate_size", "moe_intermediate_size")
    predicted = _pattern(keys, "mtp_hybrid_override_pattern", "mtp_layers_block_type")
    layer: Layer = tuple(found[kind] for kind in predicted if kind in found)
    if len(layer) < len(predicted):
        raise ConfigError(f"{keys.at('mtp_layers_block_type')}: a kind that the model lacks")
    hidden = keys.count("hidden_size")
    return Plan([(found[kind],) for kind in kinds_of], [predictor(hidden, layer)] * drafts(keys))


def _pattern(keys: Keys, pattern: str, listed: str) -> list[str]:
    """Return the kinds of layers, from a text with a letter for each or from a list."""
    letters = keys.text(pattern, default="")
    if len(letters) > MOST_LAYERS or set(letters) - set(_NEMOTRON):
        raise ConfigError(f"{keys.at(pattern)}: not a text of {' '.join(_NEMOTRON)}")
    return [_NEMOTRON[letter] for letter in letters] or (
        keys.choices(listed, tuple(_NEMOTRON.values())) or []
    )


def _nemotron_module(keys: Keys, kind: str) -> Module:
    if kind == "mamba":
        return StateSpace(
            keys.count("hidden_size"),
            keys.count("mamba_num_heads"),
            keys.count("mamba_head_dim"),
            keys.count("ssm_state_size"),
            keys.count("n_groups"),
            keys.count("conv_kernel"),
        )
    if kind == "attention":
        return attention(keys, keys.count("sliding_window", default=0, least=0) or None)
    if kind == "mlp":
        return feed_forward(keys, gated=False)  # squared ReLU, nothing gates
    shared = keys.count("moe_shared_expert_intermediate_size", default=0, least=0)
    shared *= keys.count("n_shared_experts", default=1, least=0)
    latent = keys.count("moe_latent_size", default=0, least=0)
    return replace(experts(keys, shared=shared), gated=False, latent=latent)


def falcon_h1(keys: Keys) -> Plan:
    """Read Falcon-H1: attention and a state space side by side in each layer, then a dense block."""
    heads, width = keys.count("mamba_n_heads"), keys.count("mamba_d_head", default=0, least=0)
    inner = keys.count("mamba_d_ssm")
    space = StateSpace(
        keys.count("hidden_size"),
        heads,
        width or inner // heads,
        keys.count("mamba_d_state"),
        keys.count("mamba_n_groups", default=1),
        keys.count("mamba_d_conv", default=4),
    )
    if space.heads * space.width != inner:
        raise ConfigError(f"{keys.at('mamba_d_ssm')} is not the heads times their width")
    return Plan([(attention(keys), space, feed_forward(keys))] * depth(keys))


def mamba2(keys: Keys) -> Plan:
    """Read Mamba-2: a state space in each layer and nothing else."""
    space = StateSpace(
        keys.count("hidden_size"),
        keys.count("num_heads"),
        keys.count("head_dim"),
        keys.count("state_size"),
        keys.count("n_groups"),
        keys.count("conv_kernel", default=4),
    )
    keys.pass_over("rms_norm", "norm_before_gate", "intermediate_size", "use_associative_scan")
    return Plan([(space,)] * depth(keys))
