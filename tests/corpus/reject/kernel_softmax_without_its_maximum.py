"""Leaves out the maximum that keeps exp from overflowing.

Right for every input of ordinary size. Source: by kind (A15): inputs of a tiny range.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("non_finite", "worse_than_referee_allows")


def ref(x):
    z = np.exp(x - x.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


def new(x):
    z = np.exp(x)
    z /= z.sum(axis=1, keepdims=True)
    return z


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 1024), dtype=np.float32)}
