"""Returns the input in place of input plus a small residual branch.

Source: A21, KernelGuard INPUT_PASSTHROUGH.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("beyond_ten_times",)


def ref(x, w):
    return x + np.tanh(x @ w) * np.float32(0.005)


def new(x, w):
    return x.copy()


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 16,
    }


make.state = ("w",)
