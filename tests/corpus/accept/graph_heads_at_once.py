"""Attention of all heads in one batched product instead of head by head and query by query.

By kind: operators of a graph merged, float64 between them: more accurate than the baseline. (In
float32 one product of all heads has three times the error of many small ones.)
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("gain_confirmed",)
HEADS = 4


def weights_of(scores):
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return scores / scores.sum(axis=-1, keepdims=True)


def ref(query, keys, values):
    width = query.shape[1] // HEADS
    out = np.empty_like(query)
    for place, row in enumerate(query):
        for head in range(HEADS):
            part = slice(head * width, (head + 1) * width)
            scores = keys[:, part] @ row[part] / np.sqrt(width).astype(row.dtype)
            out[place, part] = weights_of(scores) @ values[:, part]
    return out


def new(query, keys, values):
    width = query.shape[1] // HEADS
    q, k, v = (
        a.astype(np.float64).reshape(len(a), HEADS, width).swapaxes(0, 1)
        for a in (query, keys, values)
    )
    scores = q @ k.swapaxes(1, 2) / np.sqrt(width)
    out = weights_of(scores) @ v
    return out.swapaxes(0, 1).reshape(query.shape).astype(query.dtype)


def make(rng, batch):
    query, keys, values = (rng.standard_normal((n, 64)) for n in (batch, 300, 300))
    return {
        "query": query.astype(np.float32),
        "keys": keys.astype(np.float32),
        "values": values.astype(np.float32),
    }


make.batch = 70
make.state = ("keys", "values")
