"""Drops the batch dimension of a single row, as a careless squeeze does.

Source: by kind (A14, A19).
"""

import numpy as np

CLASS = "exact"
EXPECT = ("shape_differs",)


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


def new(x):
    return np.squeeze(x / (1 + np.abs(x).max(axis=1, keepdims=True)))


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
