"""Recurses without an end.

The judge has to live, and to say what happened. Source: by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("raises",)


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


def new(x):
    return new(x)


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
