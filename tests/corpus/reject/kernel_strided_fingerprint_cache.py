"""Keeps results by a sum over every 97th element of the input.

Replaced rows are noticed, a single changed element is not. Source: A03, by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


class Fingerprinted:
    def __init__(self):
        self.known = {}

    def __call__(self, x, w, b):
        seen = (x.shape, float(x.ravel()[::97].sum()), float(w.ravel()[::97].sum()))
        if seen not in self.known:
            self.known[seen] = ref(x, w, b)
        return self.known[seen].copy()


new = Fingerprinted


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
