"""Writes 4 GB to its standard output and error.

The judge has to live, and to say what happened. Source: by kind.
"""

import os

import numpy as np

CLASS = "exact"
EXPECT = ("output_limit", "crashed")
UNSAFE = "it writes 4 GB"


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


def new(x):
    for _ in range(4000):
        os.write(2, b"x" * 500_000)
        os.write(1, b"x" * 500_000)
    return x / (1 + np.abs(x).max(axis=1, keepdims=True))


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
