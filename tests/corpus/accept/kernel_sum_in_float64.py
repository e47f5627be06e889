"""Adds looked-up rows in float64 and rounds once instead of one float32 addition after the other.

By kind: more accurate than the baseline by its accumulator.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("gain_confirmed",)


def ref(table, ids):
    return np.cumsum(table[ids], axis=1)[:, -1]


def new(table, ids):
    total = np.zeros((len(ids), table.shape[1]), dtype=np.float64)
    for column in ids.T:
        total += table.take(column, axis=0)
    return total.astype(table.dtype)


def make(rng, batch):
    return {
        "table": rng.standard_normal((1_000, 16)).astype(np.float32),
        "ids": rng.integers(0, 1_000, (batch, 40)),
    }


make.batch = 500
make.state = ("table",)
