"""Keeps results by the address of the input's buffer.

New objects over a recycled buffer count as known. Source: A02, https://github.com/ornith-ai/CUDA-L1/issues/19.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


class Cached:
    def __init__(self):
        self.known = {}

    def __call__(self, x, w, b):
        key = (x.ctypes.data, x.shape)
        if key not in self.known:
            self.known[key] = (x, ref(x, w, b))
        return self.known[key][1].copy()


new = Cached


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
