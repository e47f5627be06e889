"""What a family of models says: the modules of each layer, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from layers.floor.configs.keys import MOST_LAYERS, ConfigError, Keys
from layers.floor.modules import Attention, GatedMLP, Matrices, Module

Layer: TypeAlias = tuple[Module, ...]
FULL, SLIDING, CHUNKED, LINEAR = (
    "full_attention",
    "sliding_attention",
    "chunked_attention",
    "linear_attention",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """The layers of a model, and the draft layers that predict further tokens."""

    layers: Sequence[Layer]
    draft: Sequence[Layer] = ()
    assumptions: Sequence[str] = ()
    experts_beside: bool = False  # checkpoints keep experts beside the dense block, not within


def depth(keys: Keys) -> int:
    """Return the number of layers."""
    return keys.count("num_hidden_layers", most=MOST_LAYERS)


def attention(keys: Keys, window: int | None = None, *, gated: bool = False) -> Attention:
    """Return grouped-query attention; as many key-value heads as heads where none are stated."""
    hidden, heads = keys.count("hidden_size"), keys.count("num_attention_heads")
    width = keys.count("head_dim", "attention_head_dim", default=0, least=0)
    if not width and hidden % heads:
        raise ConfigError(f"{keys.at('hidden_size')} is no multiple of the heads: state head_dim")
    width = width or hidden // heads
    kv_heads = keys.count("num_key_value_heads", default=heads, most=heads)
    return Attention(hidden, heads, kv_heads, width, width, window, gated)


def feed_forward(keys: Keys, *names: str, gated: bool = True) -> GatedMLP:
    """Return the dense feed-forward block as wide as the first of the keys says."""
    return GatedMLP(
        keys.count("hidden_size"), keys.count(*(names or ("intermediate_size",))), gated
    )


def kinds(keys: Keys, layers: int, default: Sequence[str]) -> list[str]:
    """Return the kind of each layer's attention: `layer_types`, or what the family's code defaults to."""
    found = keys.choices("layer_types", (FULL, SLIDING, CHUNKED, LINEAR), layers)
    return list(default) if found is None else found


def windows(keys: Keys, stated: Sequence[str]) -> list[int | None]:
    """Return the window of each layer, None for the whole context."""
    size = keys.count("sliding_window", default=0, least=0)
    if SLIDING in stated and not size:
        raise ConfigError(f"{keys.at('sliding_window')} is missing and layers have a window")
    return [size if kind == SLIDING else None for kind in stated]


def sparse(keys: Keys) -> list[bool]:
    """Return which layers have experts: from a list, or a first layer and a frequency."""
    layers = depth(keys)
    named = keys.choices("mlp_layer_types", ("dense", "sparse"), layers)
    if named is not None:
        keys.pass_over("first_k_dense_replace", "moe_layer_freq")
        return [kind == "sparse" for kind in named]
    first = keys.count("first_k_dense_replace", default=0, least=0)
    if isinstance(keys.any("moe_layer_freq"), list):
        return [bool(one) for one in keys.choices("moe_layer_freq", (0, 1), layers) or []]
    every = keys.count("moe_layer_freq", default=1)
    return [i >= first and i % every == 0 for i in range(layers)]


def drafts(keys: Keys, *names: str) -> int:
    """Return the number of draft layers that the first of the keys states."""
    return keys.count(*(names or ("num_nextn_predict_layers",)), default=0, least=0, most=64)


def predictor(hidden: int, layer: Layer) -> Layer:
    """Return a draft layer: the state and the next token's vector, projected together, through it."""
    return (Matrices("projection", 2 * hidden * hidden), *layer)
