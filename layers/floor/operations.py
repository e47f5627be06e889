"""Floors of single operations: what one call of a kernel class asks of one device, as an account.

Each function takes floats or arrays of one shape (see `layers.floor`) and returns what a cold call moves and
computes. A benchmark calls the same operation again and again: what the last-level cache still holds from the
call before need not come from memory. `warm` takes that off, `floor_s` makes seconds of the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from layers.floor.account import Account, Quantity, greatest, least
from layers.floor.floors import times
from layers.floor.hardware import Hardware

ROUTED_BYTES = 2.0  # activations reach and leave experts in 16 bits


def gemm(
    m: Quantity,
    n: Quantity,
    k: Quantity,
    *,
    math: str,
    weight_bytes: Quantity,
    activation_bytes: Quantity = 2.0,
    output_bytes: Quantity = 2.0,
) -> Account:
    """Return one product of an m x k activation and a k x n weight; `*_bytes` are those of an element.

    Every element is moved once and meets one multiply-add a product: 2 m n k FLOPs.
    """
    moved = n * k * weight_bytes + m * k * activation_bytes + m * n * output_bytes
    return Account(hbm_bytes=moved, flops={math: 2.0 * m * n * k})


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads of an attention on one device, and how wide each is."""

    queries: Quantity
    keys_values: Quantity
    key_width: Quantity
    value_width: Quantity

    @property
    def width(self) -> Quantity:
        """Elements of a key and a value, and of a query and an output."""
        return self.key_width + self.value_width


def context_attention(
    batch: Quantity,
    tokens: Quantity,
    heads: Heads,
    *,
    math: str,
    cache_bytes: Quantity,
    query_bytes: Quantity = 2.0,
    window: Quantity | None = None,
    causal: bool = True,
) -> Account:
    """Return attention of `tokens` new tokens a sequence over themselves, those before each or all.

    `window`: the tokens that one may see (None: all before it); `*_bytes` are those of an element. Queries
    are read and outputs written once, keys and values once for all queries.
    """
    near = tokens if window is None else least(window, tokens)
    pairs = near * (near + 1.0) / 2.0 + (tokens - near) * near if causal else tokens * tokens
    moved = heads.width * (heads.queries * query_bytes + heads.keys_values * cache_bytes)
    flops = 2.0 * batch * heads.queries * heads.width * pairs
    return Account(hbm_bytes=batch * tokens * moved, flops={math: flops})


def decode_attention(
    batch: Quantity,
    context: Quantity,
    heads: Heads,
    *,
    math: str,
    cache_bytes: Quantity,
    window: Quantity | None = None,
) -> Account:
    """Return attention of one new token a sequence over `context` cached ones, of which a window may be seen."""
    seen = context if window is None else least(window, context)
    read = batch * seen * heads.keys_values * heads.width * cache_bytes
    flops = 2.0 * batch * heads.queries * heads.width * seen
    return Account(hbm_bytes=read, sequence_bytes=read, flops={math: flops})


def latent_decode(
    batch: Quantity,
    context: Quantity,
    heads: Quantity,
    widths: tuple[Quantity, Quantity],
    *,
    math: str,
    cache_bytes: Quantity,
) -> Account:
    """Return absorbed latent attention of one token a sequence; `widths`: of the latent and its rotary key.

    All heads share one latent a token, which is key and value at once (DeepSeek-V2).
    """
    latent, rotary = widths
    read = batch * context * (latent + rotary) * cache_bytes
    flops = 2.0 * batch * heads * (2.0 * latent + rotary) * context
    return Account(hbm_bytes=read, sequence_bytes=read, flops={math: flops})


def experts(
    pairs: Quantity,
    met: Quantity,
    hidden: Quantity,
    inner: Quantity,
    *,
    math: str,
    weight_bytes: Quantity,
    top_k: Quantity,
    matrices: Quantity = 3.0,
) -> Account:
    """Return the routed experts of one device: `pairs` of a token and an expert, which meet `met` experts.

    `inner` is this device's share of an expert's inner width. A token comes in and leaves once, however many
    experts of the device it meets: at least pairs / top_k tokens.
    """
    one = matrices * hidden * inner
    moved = met * one * weight_bytes + 2.0 * ROUTED_BYTES * pairs / top_k * hidden
    return Account(hbm_bytes=moved, flops={math: 2.0 * pairs * one})


def recurrence(
    batch: Quantity,
    tokens: Quantity,
    heads: Quantity,
    widths: tuple[Quantity, Quantity],
    *,
    math: str,
    state_bytes: Quantity,
    token_bytes: Quantity,
    each: float,
) -> Account:
    """Return a linear-attention or state-space scan: a state of `widths` a head, read and written once.

    `each`: FLOPs an element of the state and token; `token_bytes`: what a token brings and takes.
    """
    rows, columns = widths
    elements = heads * rows * columns
    state = 2.0 * batch * elements * state_bytes
    moved = state + batch * tokens * token_bytes
    return Account(hbm_bytes=moved, flops={math: each * batch * tokens * elements})


def warm(cold: Account, hardware: Hardware, copies: Quantity = 1.0) -> Account:
    """Return what a call asks for that was made before, on `copies` sets of operands in turn.

    Between two visits to a set at most the whole last-level cache survives, and all sets share it: a call
    saves cache / copies bytes at best.
    """
    moved = cold.hbm_bytes - hardware.cache_bytes / copies
    return replace(cold, hbm_bytes=greatest(moved, 0.0 * moved))


def floor_s(cold: Account, hardware: Hardware, copies: Quantity | None = None) -> Quantity:
    """Return the least seconds of a call: cold, or made before on `copies` sets of operands.

    Every byte passes the last-level cache either way: where its bandwidth is known, that binds too.
    Raises KeyError where the card has no peak for the dtype.
    """
    moved = cold if copies is None else warm(cold, hardware, copies)
    least_s = times(moved, hardware).t_opt_s
    if not hardware.cache_bytes_per_s:
        return least_s
    return greatest(least_s, cold.hbm_bytes / hardware.cache_bytes_per_s)
