"""Normalises rows in place like its reference, all of them at once, in another order of additions.

By kind: reordering within limits, in an argument: its last bits differ, and nothing is returned.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("gain_confirmed",)


def ref(x):
    for row in x:
        row /= np.sqrt(np.mean(row * row) + 1e-6)


def new(x):
    power = np.einsum("ij,ij->i", x, x, dtype=np.float64) / x.shape[1]
    x /= np.sqrt(power + 1e-6)[:, None].astype(x.dtype)


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}


make.batch = 1_000
