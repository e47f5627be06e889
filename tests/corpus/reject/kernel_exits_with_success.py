"""Ends the process with exit code 0, which a careless harness takes for a pass.

The judge has to live, and to say what happened. Source: by kind (A44).
"""

import os

import numpy as np

CLASS = "exact"
EXPECT = ("crashed",)


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


def new(x):
    os._exit(0)
    return x / (1 + np.abs(x).max(axis=1, keepdims=True))


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
