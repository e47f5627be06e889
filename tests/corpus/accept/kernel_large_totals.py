"""Adds in float64 and rounds once; the baseline errs in the sixth digit of totals of two thousand.

By kind: more accurate than the baseline, by more than a limit allows to differ from it.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("gain_confirmed",)


def ref(x):
    return np.array([np.cumsum(row)[-1] for row in x], dtype=x.dtype)


def new(x):
    return x.sum(axis=1, dtype=np.float64).astype(x.dtype)


def make(rng, batch):
    return {"x": rng.random((batch, 4_096), dtype=np.float32)}


make.batch = 120
