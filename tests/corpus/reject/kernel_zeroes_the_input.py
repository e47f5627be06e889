"""Zeroes the input and returns what the reference would say of zeros.

Where both get the same object and the reference runs second, they agree. Source: A25,
KernelBench's adversarial `zero_out_kernel.py`, https://github.com/ScalingIntelligence/KernelBench.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("inputs_mutated",)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


def new(x, w, b):
    x[:] = 0
    b[:] = 0
    return np.full((len(x), w.shape[1]), 1 / w.shape[1], dtype=np.float32)


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
