"""Flushes denormal numbers to zero before it scales rows; a row of them becomes NaN.

Source: a review of this judge, by kind: content that a check never makes.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ", "non_finite")


def ref(x):
    out = np.empty_like(x)
    with np.errstate(all="ignore"):
        for i, row in enumerate(x):
            out[i] = row / np.hypot(row, 0.0).max()
    return out


def new(x):
    with np.errstate(all="ignore"):
        x = np.where(np.abs(x) < np.finfo(x.dtype).tiny, 0 * x, x)
        return x / np.hypot(x, 0.0).max(axis=1, keepdims=True)


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 24))}


make.batch = 1_000
