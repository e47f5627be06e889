"""Handles rows two at a time and forgets the last row of an odd batch.

Source: A14, by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


def new(x):
    scale = 1 + np.abs(x).max(axis=1, keepdims=True)
    out = np.zeros_like(x)
    even = len(x) // 2 * 2
    np.divide(x[:even], scale[:even], out=out[:even])
    return out


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
