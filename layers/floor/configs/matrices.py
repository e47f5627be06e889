"""The matrices of each module by the names that checkpoints give them, for what a quantisation config names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from layers.floor.modules import (
    Attention,
    CompressedAttention,
    DeltaNet,
    GatedMLP,
    LatentAttention,
    Matrices,
    MixtureOfExperts,
    Module,
    SparseIndex,
    StateSpace,
)


@dataclass(frozen=True, slots=True)
class Matrix:
    """Parameters of one name; several where families name it differently."""

    names: tuple[str, ...]
    size: float
    linear: bool = True  # a layer that quantisers look for; no router, no convolution
    expert: bool = False


def _named(names: str, size: float, *, linear: bool = True, expert: bool = False) -> Matrix:
    return Matrix(tuple(names.split()), size, linear, expert)


def _attention(of: Attention) -> Iterator[Matrix]:
    queries = of.hidden * of.heads * of.width
    yield _named("q_proj qkv_proj", queries * (2 if of.gated else 1))
    yield _named("k_proj qkv_proj", of.hidden * of.kv_heads * of.width)
    if not of.unified:
        yield _named("v_proj qkv_proj", of.hidden * of.kv_heads * of.value_width)
    yield _named("o_proj", of.heads * of.value_width * of.hidden)
    if of.index:
        yield from _index(of.index, of.hidden, of.hidden)


def _index(of: SparseIndex, hidden: int, query_rank: int) -> Iterator[Matrix]:
    yield _named("indexer.wq_b index_q_proj", query_rank * of.heads * of.width)
    yield _named("indexer.wk index_k_proj", hidden * of.width)
    yield _named("indexer.weights_proj indexers_proj", hidden * of.heads, linear=False)


def _latent(of: LatentAttention) -> Iterator[Matrix]:
    queries = of.heads * (of.width + of.rotary)
    if of.query_rank:
        yield _named("q_a_proj", of.hidden * of.query_rank)
    yield _named("q_b_proj q_proj", (of.query_rank or of.hidden) * queries)
    yield _named("kv_a_proj_with_mqa", of.hidden * (of.latent + of.rotary))
    yield _named("kv_b_proj", of.latent * of.heads * (of.width + of.value_width))
    output = of.heads * of.value_width * of.hidden
    yield _named("o_proj", output)
    if of.gated:
        yield _named("g_proj", output)
    if of.index:
        yield from _index(of.index, of.hidden, of.query_rank)


def _compressed(of: CompressedAttention) -> Iterator[Matrix]:
    yield _named("wq_a q_a_proj", of.parameters())


def _mlp(of: GatedMLP) -> Iterator[Matrix]:
    names = ("up_proj w3", "down_proj w2", "gate_proj w1")
    for name in names[: 3 if of.gated else 2]:
        yield _named(name, of.hidden * of.inner)


def _experts(of: MixtureOfExperts) -> Iterator[Matrix]:
    """Yield the routed experts as their first one: checkpoints treat all of a layer alike."""
    matrices = 3 if of.gated else 2
    routed = of.experts * matrices * (of.latent or of.hidden) * of.inner
    yield _named("experts.0.down_proj experts.0.w2", routed, expert=True)
    yield _named("gate router", of.hidden * of.experts, linear=False)
    if of.shared_inner:
        shared = matrices * of.hidden * of.shared_inner
        yield _named("shared_experts.down_proj shared_expert.down_proj mlp.down_proj", shared)
    if of.latent:
        yield _named("fc1_latent_proj routed_expert_down_proj", 2 * of.hidden * of.latent)


def _space(of: StateSpace) -> Iterator[Matrix]:
    inner, mixed = of.heads * of.width, 2 * of.groups * of.state
    yield _named("in_proj", of.hidden * (2 * inner + mixed + of.heads))
    yield _named("out_proj", inner * of.hidden)
    yield _named("conv1d", (inner + mixed) * of.convolution, linear=False)


def _delta(of: DeltaNet) -> Iterator[Matrix]:
    keys, values = of.key_heads * of.key_width, of.value_heads * of.value_width
    yield _named("in_proj_qkv in_proj_qkvz q_proj", of.hidden * (2 * keys + values))
    yield _named("out_proj o_proj", values * of.hidden)
    gate = of.gate_rank * (of.hidden + values) if of.gate_rank else of.hidden * values
    yield _named("in_proj_z in_proj_qkvz g_proj", gate)
    convolution = (2 * keys + values) * of.convolution
    yield _named("conv1d", convolution, linear=False)
    known = of.hidden * (2 * keys + 2 * values) + gate + convolution
    yield _named("in_proj_a in_proj_b in_proj_ba", of.parameters() - known, linear=False)


def _plain(of: Matrices) -> Iterator[Matrix]:
    yield _named("eh_proj fc", of.size, linear=False)


_OF: Mapping[type[Module], tuple[Callable[[Any], Iterator[Matrix]], str]] = {
    Attention: (_attention, "self_attn attn mixer"),
    LatentAttention: (_latent, "self_attn attn"),
    CompressedAttention: (_compressed, "attn self_attn"),
    GatedMLP: (_mlp, "mlp ffn mixer feed_forward"),
    MixtureOfExperts: (_experts, "mlp ffn mixer feed_forward block_sparse_moe moe"),
    StateSpace: (_space, "mixer mamba"),
    DeltaNet: (_delta, "linear_attn self_attn"),
    Matrices: (_plain, ""),
}


def matrices(module: Module) -> list[Matrix]:
    """Return the matrices of a layer's module."""
    return [matrix for matrix in _OF[type(module)][0](module) if matrix.size]


def places_of(module: Module) -> Sequence[str]:
    """Return what a layer may call the module, each with the dot that follows."""
    return [f"{place}." for place in _OF[type(module)][1].split()] or [""]
