"""Vectorised, with a shortcut for constant rows that answers zeros.

Random inputs never have a constant row. Source: A18, KernelGuard INPUT_STRUCTURE_TRUNCATION.
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
    out = x / (1 + np.abs(x).max(axis=1, keepdims=True))
    out[x[:, 0] == x[:, -1]] = 0
    return out


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
