"""Declared modules: what each part of a model holds, reads, computes and sends in one step.

A new kind of attention or state is one class here. Everything is a lower bound: a matrix is read
once a step, split as far as it can be; activations stay in caches; the busiest device counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

from layers.floor.account import Account, Quantity, greatest, least, lesser_traffic
from layers.floor.hardware import Hardware
from layers.floor.layout import Layout, all_reduce, reach, to_experts
from layers.floor.precision import Precision, by_dtype, bytes_of

STATE_BYTES = 4.0  # recurrent states are kept in float32


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a deployment: `batch` sequences, `context` tokens in the cache of each."""

    batch: Quantity
    context: Quantity
    new_tokens: Quantity = 1.0  # of each sequence: 1 decodes, more verify drafts or are a prompt
    logits: Quantity | None = None  # of each, that need logits: of a prompt the last (None: all)

    @property
    def tokens(self) -> Quantity:
        """All new tokens."""
        return self.batch * self.new_tokens

    @property
    def after(self) -> Quantity:
        """Tokens of a sequence that memory holds after it; the last new one counts with the next step."""
        return self.context + self.new_tokens - 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a step runs."""

    layout: Layout
    hardware: Hardware
    precision: Precision

    def sequences(self, step: Step) -> Quantity:
        """Return the sequences of the busiest device's group."""
        return greatest(step.batch / self.layout.dp, least(step.batch, 1.0))

    def tokens(self, step: Step) -> Quantity:
        """Return the new tokens of the busiest device's group."""
        return self.sequences(step) * step.new_tokens


class Module(ABC):
    """One part of a model's layer."""

    @abstractmethod
    def parameters(self) -> float:
        """Return how many parameters it has, biases and norms left out."""

    @abstractmethod
    def account(self, step: Step, place: Place) -> Account:
        """Return what a step asks of the busiest device."""

    def active_parameters(self) -> float:
        """Return how many parameters one token meets."""
        return self.parameters()


def dense(parameters: float, step: Step, place: Place) -> Account:
    """Return the account of matrices that every token of a group goes through, split over `tp`."""
    own = parameters / place.layout.tp
    stored = own * bytes_of(place.precision.weights)
    flops = 2 * own * place.tokens(step)
    return Account(
        hbm_bytes=stored, flops=by_dtype(place.precision.math, flops), resident_bytes=stored
    )


def summed(width: float, step: Step, place: Place) -> Account:
    """Return the all-reduce after a split pair of matrices; nothing where nothing is split."""
    if place.layout.tp == 1:
        return Account()
    size = place.tokens(step) * width * bytes_of(place.precision.activations)
    return all_reduce(size, place.layout.tp, place.hardware)


@dataclass(frozen=True, slots=True)
class SparseIndex:
    """A lightning indexer: which `top_k` tokens of the context are attended to (DeepSeek-V3.2)."""

    heads: int
    width: int
    top_k: int
    key_bytes: float | None = None  # of a token; None: in fp8, with a float32 scale for each 128

    def parameters(self, hidden: float, query_rank: float) -> float:
        """Return the projections of queries, keys and head weights."""
        return query_rank * self.heads * self.width + hidden * self.width + hidden * self.heads

    @property
    def kept(self) -> float:
        """Bytes that a token's key takes in the cache."""
        if self.key_bytes is not None:
            return self.key_bytes
        return self.width + 4.0 * -(-self.width // 128)


@dataclass(frozen=True, slots=True)
class Attention(Module):
    """Multi-head, grouped-query or multi-query attention, over a window or the whole context."""

    hidden: int
    heads: int
    kv_heads: int
    width: int  # of a head's queries and keys
    value_width: int
    window: int | None = None
    gated: bool = False  # a gate as wide as the queries
    index: SparseIndex | None = None  # picks for each group of heads what it attends to
    unified: bool = False  # keys and values are one matrix and one entry of the cache (Gemma 4)

    def parameters(self) -> float:
        """Return queries, keys, values, output, gate and indexer."""
        queries = self.hidden * self.heads * self.width * (2 if self.gated else 1)
        keys_values = self.hidden * self.kv_heads * self._entry()
        indexer = self.index.parameters(self.hidden, self.hidden) if self.index else 0.0
        return queries + keys_values + self.heads * self.value_width * self.hidden + indexer

    def _entry(self) -> int:
        return self.width if self.unified else self.width + self.value_width

    def account(self, step: Step, place: Place) -> Account:
        """Read and write the cache, split over key-value heads as far as there are any."""
        split = min(place.layout.tp, self.kv_heads)
        a_token = self.kv_heads / split * self._entry() * bytes_of(place.precision.cache)
        most = self.index.top_k if self.index else self.window
        seen = _attended(step, most)
        flops = 2 * self.heads / place.layout.tp * (self.width + self.value_width) * seen
        moved = place.sequences(step) * (_kept(step, most) + step.new_tokens) * a_token
        state = 0.0 if self.window is None else _left(step, self.window) * a_token
        return (
            dense(self.parameters(), step, place)
            + _picking(self.index, step, place)
            + Account(
                hbm_bytes=moved,
                sequence_bytes=moved,
                flops={place.precision.attention_math: flops * place.tokens(step)},
                cache_bytes_per_token=a_token if self.window is None else 0.0,
                state_bytes_per_sequence=state,
            )
            + summed(self.hidden, step, place)
        )


@dataclass(frozen=True, slots=True)
class LatentAttention(Module):
    """Multi-head latent attention: one latent and one rotary key for all heads (DeepSeek-V2).

    The latent has no heads to split: each device of a tensor-parallel group keeps and reads all of it. Arithmetic
    is the lesser of two ways: on latents as they are (absorbed; decoding), or on keys and values made of them
    once a step (many new tokens).
    """

    hidden: int
    heads: int
    query_rank: int
    latent: int
    rotary: int
    width: int  # of a head's keys without the rotary part
    value_width: int
    index: SparseIndex | None = None
    gated: bool = False  # a gate as wide as the values (Kimi K3)

    def parameters(self) -> float:
        """Return the low-rank queries, the latent, its expansion, output, gate and indexer."""
        queries = self.heads * (self.width + self.rotary)
        low = (
            self.hidden * self.query_rank + self.query_rank * queries
            if self.query_rank
            else self.hidden * queries
        )
        latent = self.hidden * (self.latent + self.rotary)
        expansion = self.latent * self.heads * (self.width + self.value_width)
        indexer = self.index.parameters(self.hidden, self.query_rank) if self.index else 0.0
        output = self.heads * self.value_width * self.hidden * (2 if self.gated else 1)
        return low + latent + expansion + output + indexer

    def account(self, step: Step, place: Place) -> Account:
        """Read the latents of the context, or of what the indexer picks and all of its keys."""
        a_latent = (self.latent + self.rotary) * bytes_of(place.precision.cache)
        picked = self.index.top_k if self.index else None
        own_heads = self.heads / place.layout.tp
        kept, pairs = _kept(step, picked), step.new_tokens * _attended(step, picked)
        made = pairs * (self.width + self.rotary + self.value_width) + kept * self._making()
        flops = 2 * own_heads * least(pairs * (2 * self.latent + self.rotary), made)
        moved = place.sequences(step) * (kept + step.new_tokens) * a_latent
        return (
            dense(self.parameters(), step, place)
            + _picking(self.index, step, place)
            + Account(
                hbm_bytes=moved,
                sequence_bytes=moved,
                flops={place.precision.attention_math: flops * place.sequences(step)},
                cache_bytes_per_token=a_latent,
            )
            + summed(self.hidden, step, place)
        )

    def _making(self) -> int:
        """Return the multiply-adds that make a head's key and value of a cached latent; `dense` has the new ones'."""
        return self.latent * (self.width + self.value_width)


@dataclass(frozen=True, slots=True)
class CompressedAttention(Module):
    """Attention over a window and one entry for each `ratio` tokens before it (DeepSeek-V4).

    One vector is the key and the value of all heads; an indexer, if any, picks entries. Sources:
    `DeepseekV4Attention` and its compressors in Hugging Face transformers.
    """

    hidden: int
    heads: int
    width: int
    query_rank: int
    output_rank: int
    output_groups: int
    window: int
    ratio: int  # 0: the window alone
    index: SparseIndex | None = None

    def parameters(self) -> float:
        """Return low-rank queries, the entry, the grouped low-rank output, compressor, indexer."""
        queries = self.hidden * self.query_rank + self.query_rank * self.heads * self.width
        output = self.heads * self.width * self.output_rank
        output += self.output_groups * self.output_rank * self.hidden
        return queries + self.hidden * self.width + output + self._compressors()

    def _compressors(self) -> float:
        """Return a value and a gate for each entry; twice, where windows overlap and are picked from."""
        if not self.ratio:
            return 0.0
        if not self.index:
            return 2 * self.hidden * self.width + self.ratio * self.width
        index = self.index
        scorer = self.query_rank * index.heads * index.width + self.hidden * index.heads
        return 2 * (2 * self.hidden + self.ratio) * (self.width + index.width) + scorer

    def account(self, step: Step, place: Place) -> Account:
        """Read the window and the entries, all or the picked ones, on every device of a group."""
        entry = self.width * bytes_of(place.precision.cache)
        rate = 1 / self.ratio if self.ratio else 0.0
        read = _kept(step, self.window) + self._limited(step.context * rate)
        seen = _attended(step, self.window) + self._limited(_attended(step, None) * rate)
        moved = place.sequences(step) * (read + step.new_tokens * (1 + rate)) * entry
        flops = 2 * self.heads / place.layout.tp * 2 * self.width * seen
        return (
            dense(self.parameters(), step, place)
            + _picking(self.index, step, place, rate)
            + Account(
                hbm_bytes=moved,
                sequence_bytes=moved,
                flops={place.precision.attention_math: flops * place.tokens(step)},
                cache_bytes_per_token=entry * rate,
                state_bytes_per_sequence=_left(step, self.window) * entry,
            )
            + summed(self.hidden, step, place)
        )

    def _limited(self, entries: Quantity) -> Quantity:
        return least(entries, float(self.index.top_k)) if self.index else entries


@dataclass(frozen=True, slots=True)
class GatedMLP(Module):
    """A feed-forward block of three matrices, or of two where nothing gates."""

    hidden: int
    inner: int
    gated: bool = True

    def parameters(self) -> float:
        """Return up, down and gate."""
        return (3 if self.gated else 2) * self.hidden * self.inner

    def account(self, step: Step, place: Place) -> Account:
        """Return the matrices and the sum behind them."""
        return dense(self.parameters(), step, place) + summed(self.hidden, step, place)


@dataclass(frozen=True, slots=True)
class MixtureOfExperts(Module):
    """Routed experts, of which each token meets `top_k`, and experts that all tokens share.

    Which experts a step reads is a matter of chance: of E, T tokens that pick k each meet
    E (1 - (1 - k / E)^T) in the mean, if all are picked alike; the busiest device reads one at least. Routing that
    prefers some experts meets fewer: with this mean 1 % of the 2.4 million calls of aiconfigurator-core that were
    routed by a power law would lie below their floor (`benchmarks/silicon_routing.py` counts them as they were).
    """

    hidden: int
    inner: int
    experts: int
    top_k: int
    shared_inner: int = 0  # of all shared experts together
    gated: bool = True
    latent: int = 0  # experts work in a narrower space (0: in `hidden`)
    imbalance: float = 1.0  # tokens of the busiest device's experts over the mean of all devices

    def parameters(self) -> float:
        """Return routed and shared experts and the router."""
        return self.experts * self._expert() + self._shared()

    def active_parameters(self) -> float:
        """Return those of `top_k` experts, the shared ones and the router."""
        return self.top_k * self._expert() + self._shared()

    def _expert(self) -> float:
        return (3 if self.gated else 2) * (self.latent or self.hidden) * self.inner

    def _shared(self) -> float:
        shared = (3 if self.gated else 2) * self.hidden * self.shared_inner
        narrowed = 2 * self.hidden * self.latent
        return shared + self.hidden * self.experts + narrowed

    def met(self, tokens: Quantity) -> Quantity:
        """Return the expected number of experts that `tokens` tokens meet."""
        return self.experts * (1 - (1 - self.top_k / self.experts) ** tokens)

    def account(self, step: Step, place: Place) -> Account:
        """Return the experts of the busiest device, and the way of the tokens there and back."""
        layout, precision = place.layout, place.precision
        own = self._expert() / layout.expert_tp
        stored = own * bytes_of(precision.experts)
        read = greatest(self.met(step.tokens) / layout.ep, least(step.tokens, 1.0))
        flops = 2 * own * self.top_k * step.tokens / layout.ep * self._skew(layout)
        routed = Account(
            hbm_bytes=read * stored,
            flops=by_dtype(precision.expert_math, flops),
            resident_bytes=-(-self.experts // layout.ep) * stored,  # whole ones
        )
        return routed + dense(self._shared(), step, place) + self._moved(step, place)

    def _skew(self, layout: Layout) -> float:
        return min(self.imbalance, layout.ep)

    def _moved(self, step: Step, place: Place) -> Account:
        """Return the way of the tokens to their experts and back, or the sum over all devices instead.

        A device gets each token of other groups that has an expert on it, or a part of one. Those of its own group
        it has after the sum behind attention; or that sum leaves each device a share of them, which it sends.
        """
        layout, hardware = place.layout, place.hardware
        whole = summed(self.hidden, step, place)
        if layout.ep == 1 and layout.dp == 1:
            return whole
        shares = reach(layout, hardware, self.top_k, self._skew(layout))
        elements = place.tokens(step) * (self.latent or self.hidden)

        def both_ways(*, held: bool) -> Account:
            out, back = (
                to_experts(elements * bytes_of(stored), shares, layout, hardware, held=held)
                for stored in (place.precision.dispatched, place.precision.activations)
            )
            return out + back

        return lesser_traffic(both_ways(held=False), both_ways(held=True) + whole)


@dataclass(frozen=True, slots=True)
class StateSpace(Module):
    """Mamba-2: a state of heads x head width x state width for each sequence, however long."""

    hidden: int
    heads: int
    width: int
    state: int
    groups: int
    convolution: int

    def parameters(self) -> float:
        """Return the projections in and out and the convolution."""
        inner, mixed = self.heads * self.width, 2 * self.groups * self.state
        into = self.hidden * (2 * inner + mixed + self.heads)
        return into + (inner + mixed) * self.convolution + inner * self.hidden

    def account(self, step: Step, place: Place) -> Account:
        """Read and write the state once a step: two multiply-adds an element and token."""
        elements = self.heads * self.width * self.state / place.layout.tp
        return _recurrent(self.parameters(), self.hidden, elements, 4.0, step, place)


@dataclass(frozen=True, slots=True)
class DeltaNet(Module):
    """A gated delta rule: a matrix of key width x value width a head for each sequence."""

    hidden: int
    key_heads: int
    key_width: int
    value_heads: int
    value_width: int
    convolution: int
    decay_rank: int = 0  # a decay for each key channel, through this rank (0: one a head)
    gate_rank: int = 0  # of the output gate (0: full)

    def parameters(self) -> float:
        """Return queries, keys, values, output gate, output, decay and rate, and the convolution."""
        keys = self.key_heads * self.key_width
        values = self.value_heads * self.value_width
        into: float = self.hidden * (2 * keys + values + self.value_heads)
        into += _low_rank(self.hidden, self.decay_rank, keys, self.value_heads)
        into += _low_rank(self.hidden, self.gate_rank, values, values)
        return into + (2 * keys + values) * self.convolution + values * self.hidden

    def account(self, step: Step, place: Place) -> Account:
        """Read and write the state once a step: three multiply-adds an element and token."""
        elements = self.value_heads * self.key_width * self.value_width / place.layout.tp
        return _recurrent(self.parameters(), self.hidden, elements, 6.0, step, place)


@dataclass(frozen=True, slots=True)
class Embedding(Module):
    """The table of token vectors: kept whole, read a row a token."""

    hidden: int
    vocabulary: int

    def parameters(self) -> float:
        """Return the table."""
        return self.hidden * self.vocabulary

    def active_parameters(self) -> float:
        """Return a row."""
        return self.hidden

    def account(self, step: Step, place: Place) -> Account:
        """Return the rows of a step."""
        size = bytes_of(place.precision.weights)
        rows = place.tokens(step) * self.hidden / place.layout.tp
        return Account(
            hbm_bytes=rows * size, resident_bytes=self.parameters() / place.layout.tp * size
        )


@dataclass(frozen=True, slots=True)
class Head(Module):
    """The logits of those tokens that need any; the embedding's table again where it is tied."""

    hidden: int
    vocabulary: int
    tied: bool = False

    def parameters(self) -> float:
        """Return the matrix, nothing where the embedding has it."""
        return 0.0 if self.tied else self.hidden * self.vocabulary

    def active_parameters(self) -> float:
        """Return the matrix, whoever holds it."""
        return self.hidden * self.vocabulary

    def account(self, step: Step, place: Place) -> Account:
        """Read the matrix once, for the tokens whose logits are asked for."""
        asked = step if step.logits is None else replace(step, new_tokens=step.logits)
        found = dense(self.hidden * self.vocabulary, asked, place)
        kept = 0.0 if self.tied else found.resident_bytes
        return Account(hbm_bytes=found.hbm_bytes, flops=found.flops, resident_bytes=kept)


@dataclass(frozen=True, slots=True)
class Matrices(Module):
    """Matrices that every token goes through and that no sum over devices follows."""

    name: str
    size: float  # parameters

    def parameters(self) -> float:
        """Return all of them."""
        return self.size

    def account(self, step: Step, place: Place) -> Account:
        """Read them once."""
        return dense(self.size, step, place)


@dataclass(frozen=True, slots=True)
class Tower(Module):
    """An encoder of images or sound: in memory, and no part of a decode step."""

    name: str
    size: float  # parameters

    def parameters(self) -> float:
        """Return all of them."""
        return self.size

    def active_parameters(self) -> float:
        """Return none: a token of the language model meets no encoder."""
        return 0.0

    def account(self, step: Step, place: Place) -> Account:
        """Keep it."""
        return Account(resident_bytes=dense(self.size, step, place).resident_bytes)


def _low_rank(hidden: float, rank: float, wide: float, full: float) -> float:
    """Return a projection to `wide` through a rank, or to `full` directly where there is none."""
    return rank * (hidden + wide) if rank else hidden * full


def _picking(index: SparseIndex | None, step: Step, place: Place, rate: float = 1.0) -> Account:
    """Return what an indexer asks: a key kept for each token (or `rate` of them), all read and scored.

    Where everything would be picked there is nothing to score.
    """
    if index is None:
        return Account()
    needed = least(greatest(step.context * rate - index.top_k, 0.0), 1.0)
    keys = index.kept * rate
    moved = place.sequences(step) * (step.context * needed + step.new_tokens) * keys
    scored = 2 * index.heads / place.layout.tp * index.width * _attended(step, None) * rate
    return Account(
        hbm_bytes=moved,
        sequence_bytes=moved,
        flops={place.precision.index_math: scored * needed * place.tokens(step)},
        cache_bytes_per_token=keys,
    )


def _recurrent(
    parameters: float, hidden: float, elements: float, each: float, step: Step, place: Place
) -> Account:
    state = elements * STATE_BYTES
    moved = 2 * state * place.sequences(step)
    return (
        dense(parameters, step, place)
        + Account(
            hbm_bytes=moved,
            sequence_bytes=moved,
            flops={place.precision.attention_math: each * elements * place.tokens(step)},
            state_bytes_per_sequence=state,
        )
        + summed(hidden, step, place)
    )


def _kept(step: Step, most: int | None) -> Quantity:
    """Return the tokens of a sequence whose cache a step reads."""
    return step.context if most is None else least(step.context, float(most))


def _left(step: Step, window: int) -> Quantity:
    """Return the tokens of a sequence that a window keeps after a step."""
    return least(step.after, float(window))


def _attended(step: Step, most: int | None) -> Quantity:
    """Return the tokens that a new token attends to in the mean, itself and those before it."""
    if most is None:
        return step.context + (step.new_tokens + 1) / 2
    nearer = least(greatest(most - step.context, 0.0), step.new_tokens)  # see less than `most`
    seen = nearer * (step.context + (nearer + 1) / 2) + (step.new_tokens - nearer) * most
    return seen / step.new_tokens
