"""How many pairs of token and expert, and how many experts, the measured device meets, from the collectors' routing.

`collector/helper.py` of github.com/ai-dynamo/aiconfigurator: `balanced_logits` and `_generate_power_law_distribution`.
All counts are lower bounds.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

DRAWS = 64  # of random counts; the least of them bounds the mean of five or ten
SEED = 1


@cache
def routed(
    distribution: str, tokens: int, experts: int, top_k: int, devices: int, *, coarse: bool
) -> tuple[float, float]:
    """Return pairs and experts of the device with most pairs; `coarse`: experts spaced in bfloat16."""
    if distribution == "balanced":
        return _balanced(tokens, experts, top_k, devices, coarse=coarse)
    _, is_power_law, alpha = distribution.partition("power_law_")
    if not is_power_law or not alpha.replace(".", "", 1).isdigit():  # uniform, or moved by EPLB
        pairs = max(1.0, tokens * top_k / devices)
        return pairs, max(1.0, pairs / tokens)
    return _power_law(tokens, experts, top_k, devices, float(alpha))


def _balanced(
    tokens: int, experts: int, top_k: int, devices: int, *, coarse: bool
) -> tuple[float, float]:
    """Return what device 0 gets: the pattern repeats itself every `experts` tokens."""
    own = experts // devices
    rounds, rest = divmod(tokens, experts)
    whole = _spread(min(tokens, experts), tokens, experts, top_k, coarse=coarse)
    met = float(np.unique(whole[whole < own]).size)
    if rounds == 0:
        pairs = float((whole < own).sum())
    else:
        part = _spread(rest, tokens, experts, top_k, coarse=coarse)
        pairs = float(rounds * (whole < own).sum() + (part < own).sum())
    return max(pairs, 1.0), max(met, 1.0)


def _spread(
    first: int, tokens: int, experts: int, top_k: int, *, coarse: bool
) -> NDArray[np.int64]:
    """Return the experts of the `first` of `tokens` tokens, tokens x top_k."""
    stride = -(-experts // top_k)
    token, choice = np.arange(first)[:, None], np.arange(top_k)[None, :] * stride
    if tokens >= stride:
        return (token + choice) % experts
    start = token * stride / tokens
    if not coarse:
        return ((start + choice) % experts).astype(np.int64)
    return (bfloat16(bfloat16(start) + choice) % experts).astype(np.int64)


def bfloat16(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest numbers of eight significant bits, ties to even."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return rounded.astype(np.uint32).view(np.float32).astype(np.float64)


def _power_law(
    tokens: int, experts: int, top_k: int, devices: int, alpha: float
) -> tuple[float, float]:
    """Return the least that the fullest of `devices` gets in `DRAWS` draws.

    Counts are rounded to whole tokens and no expert gets a token twice; what rounding gave too much is taken from
    the fullest experts, so it costs an expert only where all have one token.
    """
    low, high = (1.0, tokens * 0.8) if tokens * top_k > experts else (0.01, 2.0)
    chance = np.random.default_rng(SEED).random((DRAWS, experts))
    ends = low ** (1 - alpha), high ** (1 - alpha)
    drawn = ((ends[1] - ends[0]) * chance + ends[0]) ** (1 / (1 - alpha))
    share = drawn / drawn.sum(1, keepdims=True) * tokens * top_k
    counts = np.minimum(np.rint(share), tokens)
    excess = np.maximum(0.0, counts.sum(1) - tokens * top_k)
    groups = counts.reshape(DRAWS, devices, experts // devices)
    fullest = groups[np.arange(DRAWS), groups.sum(2).argmax(1)]
    taken = np.ceil(excess / devices)
    spare = np.maximum(0.0, fullest - 1).sum(1)
    pairs = max(1.0, tokens * top_k / devices, float((fullest.sum(1) - taken).min()))
    met = float(((fullest > 0).sum(1) - np.maximum(0.0, taken - spare)).min())
    return pairs, max(1.0, met, float(np.ceil(pairs / tokens)))
