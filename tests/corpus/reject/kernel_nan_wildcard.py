"""Returns NaN everywhere, for checkers that take NaN as equal to anything.

Source: A11, https://github.com/gpu-mode/pygpubench/pull/7 (`gc_nan`).
"""

import numpy as np

CLASS = "exact"
EXPECT = ("non_finite",)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


def new(x, w, b):
    return np.full((len(x), w.shape[1]), np.nan, dtype=np.float32)


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
