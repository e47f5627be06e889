"""Computes the right answer inside the caller's array.

It saves an allocation and destroys the input. Source: A25, by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("inputs_mutated",)


def ref(x):
    z = np.exp(x - x.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


def new(x):
    x -= x.max(axis=1, keepdims=True)
    np.exp(x, out=x)
    return np.divide(x, x.sum(axis=1, keepdims=True))


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 1024), dtype=np.float32)}
