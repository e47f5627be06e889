"""Keeps results by the identity of the input object.

A timing loop that passes the same object sees a dictionary look-up. Source: A01, https://github.com/gpu-mode/kernelboard (2026-03-09 news).
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
        if id(x) not in self.known:
            self.known[id(x)] = (x, ref(x, w, b))  # holds it: the identity stays unique
        return self.known[id(x)][1].copy()


new = Cached


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
