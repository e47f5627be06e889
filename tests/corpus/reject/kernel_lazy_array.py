"""Returns an object that computes when it is first looked at.

A clock that stops at return sees nothing of the work. Source: A40 (KernelGuard LAZY_TENSOR).
"""

import numpy as np

CLASS = "exact"
EXPECT = ("dtype_differs",)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


class Lazy:
    def __init__(self, *args):
        self.args = args

    def __array__(self, dtype=None, copy=None):
        return ref(*self.args)


def new(x, w, b):
    return Lazy(x.copy(), w, b)


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
