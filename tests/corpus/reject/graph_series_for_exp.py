"""Replaces exp by five terms of its series: right near zero.

An undeclared approximation. Source: A36 by kind.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("beyond_ten_times",)


def ref(x):
    return np.exp(x.astype(np.float64)).astype(np.float32)


def new(x):
    z = x * np.float32(0.25)
    out = 1 + z * (1 + z * (np.float32(0.5) + z * np.float32(1 / 6)))
    out *= out
    out *= out
    return out


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 512), dtype=np.float32) / 4}
