"""Keeps derived weights by the sum of their bit patterns: exchanged rows go unseen.

Source: a review of this judge, by kind: a checksum that is blind to order.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def derive(w):
    scale = np.hypot(w, 1e-3).max(axis=1, keepdims=True)
    return np.hypot(w / scale, 0.5) * np.sign(w)


class Summed:
    def __init__(self):
        self.key = self.derived = None

    def __call__(self, x, w):
        bits = np.ascontiguousarray(w).view(np.uint64)
        key = (w.shape, int(np.add.reduce(bits, axis=None)))
        if key != self.key:
            self.key, self.derived = key, derive(w)
        return np.hypot(x @ self.derived, 1.0)


def ref(x, w):
    return np.hypot(x @ derive(w), 1.0)


new = Summed


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 96)), "w": rng.standard_normal((96, 112))}


make.batch = 100
make.state = ("w",)
