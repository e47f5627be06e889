"""Adds the epsilon to the divisor where the reference takes the larger of both.

All bits are the same unless a row is small.
Source: a review of this judge, by kind: content that a check never makes.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)
EPSILON = 1e-20


def ref(x):
    out = np.empty_like(x)
    with np.errstate(all="ignore"):
        for i, row in enumerate(x):
            out[i] = row / np.maximum(np.hypot(row, 0.0).max(), EPSILON)
    return out


def new(x):
    with np.errstate(all="ignore"):
        return x / (np.hypot(x, 0.0).max(axis=1, keepdims=True) + EPSILON)


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 24))}


make.batch = 1_000
