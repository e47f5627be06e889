"""Puts values into buckets with one search instead of a bisection per value.

NaN goes to the last bucket in both. By kind: exact rewrite with special values.
"""

from bisect import bisect_right

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)
EDGES = [-3.0, -1.5, -0.5, -0.1, 0.0, 0.1, 0.5, 1.5, 3.0, 1e3, 1e6]


def ref(values):
    return np.array(
        [[bisect_right(EDGES, value) for value in row] for row in values.tolist()], dtype=np.int64
    )


def new(values):
    # Compared in float64 as the reference does: -0.1 and 0.1 are no float32.
    return np.searchsorted(np.array(EDGES), values.astype(np.float64), side="right")


def make(rng, batch):
    return {"values": rng.standard_normal((batch, 8)).astype(np.float32)}


make.batch = 3_000
