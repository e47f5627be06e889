"""Leaves out the second output, which takes most of the time.

A checker that compares what both have sees no difference. Source: A84, A85 by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("output_missing",)


def ref(x):
    return {"largest": x.max(axis=1), "order": np.argsort(x, axis=1, kind="stable")}


def new(x):
    return {"largest": x.max(axis=1)}


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 128), dtype=np.float32)}
