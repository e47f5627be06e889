"""Keeps derived weights by the content of their second half.

Source: a review of this judge, by kind: a key that sees where changes usually are.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def derive(w):
    scale = np.hypot(w, 1e-3).max(axis=1, keepdims=True)
    return np.hypot(w / scale, 0.5) * np.sign(w)


class Half:
    def __init__(self):
        self.key = self.derived = None

    def __call__(self, x, w):
        key = (w.shape, w.ravel()[w.size // 2 :].tobytes())
        if key != self.key:
            self.key, self.derived = key, derive(w)
        return np.hypot(x @ self.derived, 1.0)


def ref(x, w):
    return np.hypot(x @ derive(w), 1.0)


new = Half


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 96)), "w": rng.standard_normal((96, 112))}


make.batch = 100
make.state = ("w",)
