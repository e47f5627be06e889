"""Keeps what is derived from the weights until their content changes.

The key is a copy of the weights, compared as a whole in every call: other weights in the same
buffer are noticed. By kind: honest cache of derived weights.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)


def derive(w):
    scale = np.hypot(w, 1e-3).max(axis=1, keepdims=True)
    return np.hypot(w / scale, 0.5) * np.sign(w)


class New:
    def __init__(self):
        self.key = None
        self.derived = None

    def __call__(self, x, w):
        key = (w.shape, w.dtype.str, w.tobytes())
        if key != self.key:
            self.key, self.derived = key, derive(w)
        return np.hypot(x @ self.derived, 1.0)


def ref(x, w):
    return np.hypot(x @ derive(w), 1.0)


new = New


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 192)), "w": rng.standard_normal((192, 224))}


make.batch = 100
make.state = ("w",)
