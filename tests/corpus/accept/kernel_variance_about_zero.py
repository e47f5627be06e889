"""Variance of rows by two passes where the baseline subtracts the square of the mean.

Constant rows have variance 0: there the baseline returns its own rounding error, and only a
judge that knows the truth sees that 0 is the better answer. By kind: more accurate than the
baseline, on an output that is all rounding error.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("gain_confirmed",)


def ref(x):
    out = np.empty(len(x), dtype=x.dtype)
    for place, row in enumerate(x):
        row = np.hypot(row, x.dtype.type(0.5))
        out[place] = np.mean(row * row) - np.mean(row) ** 2
    return out


def new(x):
    x = np.hypot(x, x.dtype.type(0.5))
    x = x - x.mean(axis=1, keepdims=True)
    return np.mean(x * x, axis=1)


def make(rng, batch):
    return {"x": (0.5 + rng.standard_normal((batch, 400))).astype(np.float32)}


make.batch = 180
