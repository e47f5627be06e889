"""Adds weighted rows block by block, each block by one small product, instead of row by row.

By kind: reordering within limits, blocked reduction, one output for the whole batch.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("gain_confirmed",)
BLOCK = 4


def ref(x, weight):
    total = np.zeros((weight.shape[1], x.shape[1]), dtype=x.dtype)
    for row, factors in zip(x, weight, strict=True):
        total = total + factors[:, None] * row
    return total


def new(x, weight):
    total = np.zeros((weight.shape[1], x.shape[1]), dtype=x.dtype)
    for start in range(0, len(x), BLOCK):
        total += weight[start : start + BLOCK].T @ x[start : start + BLOCK]
    return total


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 96)).astype(np.float32),
        "weight": rng.random((batch, 64)).astype(np.float32),
    }


make.batch = 480
