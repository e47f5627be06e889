"""Families with multi-head or grouped-query attention, dense or with experts.

Each default that a configuration may leave out is the one of the family's class in Hugging Face
transformers (`configuration_*.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from layers.floor.configs.keys import ConfigError, Keys
from layers.floor.configs.plan import (
    CHUNKED,
    FULL,
    SLIDING,
    Layer,
    Plan,
    attention,
    depth,
    drafts,
    feed_forward,
    kinds,
    predictor,
    sparse,
    windows,
)
from layers.floor.modules import Attention, GatedMLP, Matrices, MixtureOfExperts, SparseIndex

EXPERT_COUNT = ("num_experts", "num_local_experts", "n_routed_experts")
LIKE_THE_LAST = ["draft layers are taken to be like the last layer, which is not stated"]
CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "top_k_experts")


def experts(keys: Keys, inner: str = "moe_intermediate_size", shared: int = 0) -> MixtureOfExperts:
    """Return routed experts and, `shared` wide in all, those that every token meets."""
    found = keys.count(*EXPERT_COUNT)
    top_k = keys.count(*CHOSEN, most=found)
    return MixtureOfExperts(
        keys.count("hidden_size"), keys.count(inner), found, top_k, shared_inner=shared
    )


def dense(keys: Keys) -> Plan:
    """Read a model whose layers are all alike: Llama, OLMo, Granite, Phi-3."""
    keys.refuse("layer_types")
    layer = (attention(keys, _one_window(keys)), feed_forward(keys))
    return Plan([layer] * depth(keys))


def _one_window(keys: Keys) -> int | None:
    """Return the window of all layers, None where there is none (Mistral, Phi-3)."""
    return keys.count("sliding_window", default=0, least=0) or None


def qwen(keys: Keys) -> Plan:
    """Read Qwen2, Qwen3 or MiMo: a window from `max_window_layers` on, if it is used at all."""
    layers = depth(keys)
    stated = _qwen_windows(keys, layers)
    feed = feed_forward(keys)
    draft = predictor(feed.hidden, (attention(keys), feed))
    return Plan([(attention(keys, window), feed) for window in stated], [draft] * drafts(keys))


def _qwen_windows(keys: Keys, layers: int) -> list[int | None]:
    used = keys.flag("use_sliding_window", default=False)
    first = keys.count("max_window_layers", default=layers, least=0)
    default = [SLIDING if used and i >= first else FULL for i in range(layers)]
    keys.pass_over("sliding_window")  # stated and without effect where it is not used
    return windows(keys, kinds(keys, layers, default))


def qwen_experts(keys: Keys) -> Plan:
    """Read Qwen2-MoE, Qwen3-MoE: experts in every `decoder_sparse_step`-th layer but those listed."""
    layers = depth(keys)
    every = keys.count("decoder_sparse_step", default=1)
    listed = keys.choices("mlp_only_layers", range(layers)) or []
    shared = keys.count("shared_expert_intermediate_size", default=0, least=0)
    routed = experts(keys, shared=shared)
    stated = _qwen_windows(keys, layers)
    keys.pass_over("intermediate_size")  # of dense layers, of which there may be none
    return Plan(
        [
            (
                attention(keys, stated[i]),
                routed if i not in listed and (i + 1) % every == 0 else feed_forward(keys),
            )
            for i in range(layers)
        ]
    )


def mixtral(keys: Keys) -> Plan:
    """Read Mixtral, Phi-3.5-MoE, OLMoE: experts in all layers, `intermediate_size` wide each."""
    layer = (attention(keys, _one_window(keys)), experts(keys, "intermediate_size"))
    return Plan([layer] * depth(keys))


def gpt_oss(keys: Keys) -> Plan:
    """Read gpt-oss: windows and the whole context in turn, experts everywhere."""
    layers = depth(keys)
    default = [FULL if i % 2 else SLIDING for i in range(layers)]
    routed = experts(keys, "intermediate_size")
    stated = windows(keys, kinds(keys, layers, default))
    return Plan([(attention(keys, window), routed) for window in stated])


def gemma(every: int) -> Callable[[Keys], Plan]:
    """Return a reader of Gemma: each `every`-th layer sees the whole context (0: all do)."""

    def read(keys: Keys) -> Plan:
        layers = depth(keys)
        period = keys.count(
            "sliding_window_pattern", "_sliding_window_pattern", default=every, least=0
        )
        default = [FULL if not period or (i + 1) % period == 0 else SLIDING for i in range(layers)]
        stated = windows(keys, kinds(keys, layers, default))
        return Plan([(attention(keys, window), feed_forward(keys)) for window in stated])

    return read


def gemma4(keys: Keys) -> Plan:
    """Read Gemma 4: wide heads and one matrix for keys and values where the whole context is seen."""
    keys.refuse("hidden_size_per_layer_input", "num_kv_shared_layers", unless=0)
    keys.refuse("use_double_wide_mlp", unless=False)
    keys.pass_over("vocab_size_per_layer_input", "expert_intermediate_size")
    layers = depth(keys)
    narrow = attention(keys, keys.count("sliding_window"))
    wide = keys.count("global_head_dim", default=narrow.width)
    unified = keys.flag("attention_k_eq_v", default=False)
    kv_heads = keys.count("num_global_key_value_heads", default=narrow.kv_heads)
    whole = Attention(
        narrow.hidden,
        narrow.heads,
        kv_heads if unified else narrow.kv_heads,
        wide,
        wide,
        unified=unified,
    )
    feed = _gemma4_feed(keys)
    default = [FULL if (i + 1) % 6 == 0 else SLIDING for i in range(layers)]
    stated = kinds(keys, layers, default)
    return Plan(
        [(narrow if kind == SLIDING else whole, feed) for kind in stated], experts_beside=True
    )


def _gemma4_feed(keys: Keys) -> GatedMLP | MixtureOfExperts:
    """Return the dense block; beside experts, which it is added to, it is one that all tokens share."""
    block = feed_forward(keys)
    if not keys.flag("enable_moe_block", default=False):
        keys.pass_over("moe_intermediate_size", "num_experts", "top_k_experts")
        return block
    return experts(keys, shared=block.inner)


def llama4(keys: Keys) -> Plan:
    """Read Llama 4: three of four layers attend within chunks; experts in every n-th layer.

    Somewhere in a chunk of n tokens, (n + 1) / 2 are seen in the mean: a window of half a chunk.
    """
    layers = depth(keys)
    every = keys.count("no_rope_layer_interval", default=4)
    turned = keys.choices("no_rope_layers", (0, 1), layers) or [
        (i + 1) % every for i in range(layers)
    ]
    stated = kinds(keys, layers, [CHUNKED if one else FULL for one in turned])
    half = keys.count("attention_chunk_size", default=0, least=0) // 2 or None
    step = keys.count("interleave_moe_layer_step", least=1)
    listed = keys.choices("moe_layers", range(layers)) or range(step - 1, layers, step)
    inner = keys.count("intermediate_size")
    routed = experts(keys, "intermediate_size", shared=inner)
    block = feed_forward(keys, "intermediate_size_mlp")
    return Plan(
        [
            (
                attention(keys, half if stated[i] == CHUNKED else None),
                routed if i in listed else block,
            )
            for i in range(layers)
        ],
        assumptions=[f"chunked attention sees {half} tokens in the mean"] if half else [],
    )


def minimax_m2(keys: Keys) -> Plan:
    """Read MiniMax-M2: full attention, experts everywhere."""
    layers = depth(keys)
    keys.choices("attn_type_list", (1,), layers)  # 1: full attention
    shared = keys.count("shared_intermediate_size", default=0, least=0)
    layer = (attention(keys), experts(keys, "intermediate_size", shared))
    modules = drafts(keys, "num_mtp_modules") * drafts(keys, "mtp_transformer_layers")
    if not keys.flag("use_mtp", default=False):
        modules = 0
    draft = [predictor(layer[0].hidden, layer)] * modules
    return Plan([layer] * layers, draft, LIKE_THE_LAST if draft else ())


def minimax_m3(keys: Keys) -> Plan:
    """Read MiniMax-M3: an indexer picks blocks of keys in most layers; dense layers first."""
    keys.refuse("attention_output_gate", unless=False)
    has_experts = sparse(keys)
    keys.pass_over("num_nextn_predict_layers", "moe_intermediate_size")
    chosen = keys.section("sparse_attention_config")
    layers = len(has_experts)
    index, used = (None, [0] * layers) if chosen is None else _blocks(chosen, layers)
    shared = keys.count("shared_intermediate_size") * keys.count("n_shared_experts", default=1)
    routed, block = (
        experts(keys, "intermediate_size", shared),
        feed_forward(keys, "dense_intermediate_size"),
    )
    full = attention(keys)
    picking = replace(full, index=index)
    last: Layer = (picking, routed)
    draft = [predictor(full.hidden, last)] * drafts(keys, "num_mtp_modules")
    return Plan(
        [
            (picking if picks else full, routed if has else block)
            for picks, has in zip(used, has_experts, strict=True)
        ],
        draft,
        LIKE_THE_LAST if draft else (),
    )


def _blocks(keys: Keys, layers: int) -> tuple[SparseIndex, list[int]]:
    """Return the indexer and which layers use it."""
    keys.refuse("use_sparse_attention", unless=True)
    # The block before a query is one of those that are picked.
    keys.pass_over("sparse_disable_index_value", "sparse_score_type")
    keys.pass_over("sparse_init_block", "sparse_local_block")
    picked = keys.count("sparse_topk_blocks") * keys.count("sparse_block_size")
    index = SparseIndex(
        keys.count("sparse_num_index_heads"), keys.count("sparse_index_dim"), picked
    )
    used = keys.choices("sparse_attention_freq", (0, 1), layers) or [1] * layers
    keys.finish()
    return index, used


def mimo_v2(keys: Keys) -> Plan:
    """Read MiMo-V2: windows with heads of their own, experts after the first layer."""
    has_experts = sparse(keys)
    pattern = keys.choices("hybrid_layer_pattern", (0, 1), len(has_experts))
    if pattern is None:
        raise ConfigError(f"{keys.at('hybrid_layer_pattern')} is missing")
    keys.pass_over("attention_chunk_size", "sliding_window_size")
    value = keys.count("v_head_dim", default=keys.count("head_dim"))
    full = replace(attention(keys), value_width=value)
    window = Attention(
        full.hidden,
        keys.count("swa_num_attention_heads", default=full.heads),
        keys.count("swa_num_key_value_heads", default=full.kv_heads),
        keys.count("swa_head_dim", default=full.width),
        keys.count("swa_v_head_dim", default=value),
        keys.count("sliding_window"),
    )
    inner = keys.count("moe_intermediate_size")
    shared = inner * keys.count("n_shared_experts", default=0, least=0)
    routed, block = experts(keys, shared=shared), feed_forward(keys)
    return Plan(
        [
            (window if one else full, routed if has else block)
            for one, has in zip(pattern, has_experts, strict=True)
        ]
    )


def step3(keys: Keys) -> Plan:
    """Read Step-3.5 and 3.7 Flash: windows in most layers, experts after the first ones."""
    has_experts = sparse(keys)
    stated = windows(keys, kinds(keys, len(has_experts), [FULL] * len(has_experts)))
    shared = keys.count("share_expert_dim") * keys.count("n_shared_experts", default=1)
    routed, block = experts(keys, shared=shared), feed_forward(keys)
    draft = predictor(block.hidden, (attention(keys), block))
    predicted = drafts(keys)
    return Plan(
        [
            (attention(keys, window), routed if has else block)
            for window, has in zip(stated, has_experts, strict=True)
        ],
        [draft] * predicted,
        ["draft layers are taken as dense, which is not stated"] if predicted else [],
    )


def glm4_moe(keys: Keys) -> Plan:
    """Read GLM-4.5: grouped-query attention, dense layers first, shared experts."""
    inner = keys.count("moe_intermediate_size")
    routed = experts(keys, shared=inner * keys.count("n_shared_experts", default=0, least=0))
    layer: Layer = (attention(keys), routed)
    dense_layer: Layer = (attention(keys), feed_forward(keys))
    return Plan(
        [layer if one else dense_layer for one in sparse(keys)],
        [predictor(routed.hidden, layer)] * drafts(keys),
    )


def nemotron_nas(keys: Keys) -> Plan:
    """Read Nemotron of neural architecture search: each layer's blocks are stated, or left out."""
    hidden, heads = keys.count("hidden_size"), keys.count("num_attention_heads")
    blocks = keys.any("block_configs")
    layers = depth(keys)
    if not isinstance(blocks, list) or len(blocks) != layers:
        raise ConfigError(f"{keys.at('block_configs')}: not a list of {layers} blocks")
    keys.pass_over("intermediate_size", "num_key_value_heads")
    found: list[Layer] = []
    for i, one in enumerate(blocks):
        block = Keys(one, keys.at(f"block_configs[{i}]"))
        mixer, feed = block.section("attention"), block.section("ffn")
        if mixer is None or feed is None:
            raise ConfigError(f"{block.at('attention')} or ffn is missing")
        found.append((*_nas_attention(mixer, hidden, heads), *_nas_feed(feed, hidden)))
        block.finish()
    return Plan(found)


def _nas_attention(keys: Keys, hidden: int, heads: int) -> Layer:
    keys.refuse("sparsify", "num_sink_tokens", "unshifted_sink", unless=False)
    keys.refuse("use_prefill_window_in_sink_attention", unless=False)
    linear = keys.flag("replace_with_linear", default=False)
    absent = keys.flag("no_op", default=False)
    group = keys.count("n_heads_in_group", default=1, most=heads)
    window = keys.count("window_length", default=0, least=0) or None
    keys.finish()
    if absent:
        return ()
    if linear:
        return (Matrices("linear in place of attention", hidden * hidden),)
    width = hidden // heads
    return (Attention(hidden, heads, heads // group, width, width, window),)


def _nas_feed(keys: Keys, hidden: int) -> Layer:
    """Return the block: two thirds of a multiple of the width, rounded up to 256 (DeciLM)."""
    keys.refuse("sparsify")
    linear = keys.flag("replace_with_linear", default=False)
    absent = keys.flag("no_op", default=False)
    factor = None if keys.any("ffn_mult") is None else keys.number("ffn_mult")
    keys.finish()
    if absent:
        return ()
    if linear:
        return (Matrices("linear in place of feed-forward", hidden * hidden),)
    if factor is None:
        raise ConfigError(f"{keys.at('ffn_mult')} is missing")
    return (GatedMLP(hidden, -(-int(2 * factor * hidden / 3) // 256) * 256),)
