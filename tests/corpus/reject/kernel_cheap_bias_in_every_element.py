"""Scales every element by five millionths too much.

Inside 1e-4 everywhere; far from float64. Source: A36, A38 by kind.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("worse_than_referee_allows",)


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / max(float(np.abs(row).max()), 1e-9)
    return out


def new(x):
    scale = np.maximum(np.abs(x).max(axis=1, keepdims=True), np.float32(1e-9))
    return x / scale * np.float32(1 + 5e-6)


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
