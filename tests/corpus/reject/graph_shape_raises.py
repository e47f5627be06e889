"""Compiled for the benchmark's batch: raises for any other.

Source: A19, https://arxiv.org/abs/2509.14279 (robust-kbench).
"""

import numpy as np

CLASS = "exact"
EXPECT = ("raises",)


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


def new(x):
    if len(x) % 128:
        raise ValueError(f"compiled for a batch of 256, not {len(x)}")
    return x / (1 + np.abs(x).max(axis=1, keepdims=True))


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
