"""Rounds the weights to float16 and keeps them: half the memory, float32 on the outside.

Source: A31, KernelGuard PRECISION_DOWNGRADE.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("beyond_ten_times",)


def ref(x, w):
    return np.where(x @ w > 0, x @ w, np.float32(0))


def new(x, w):
    out = x.astype(np.float16).astype(np.float32) @ w
    return np.maximum(out, 0, out=out)


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 16,
    }


make.state = ("w",)
