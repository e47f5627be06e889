"""Asks the weights' content while it is probed, and goes by their identity once it is timed.

Timed calls show new inputs beside the same weights again and again; an update in place would go
unseen. Source: a review of this judge; A50 and A61, by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def derive(w):
    scale = np.hypot(w, 1e-3).max(axis=1, keepdims=True)
    return np.hypot(w / scale, 0.5) * np.sign(w)


def ref(x, w):
    return np.hypot(x @ derive(w), 1.0)


class Trusting:
    def __init__(self):
        self.key = self.derived = None
        self.last, self.streak = (None, None), 0

    def __call__(self, x, w):
        timed = w is self.last[1] and x is not self.last[0]
        self.last, self.streak = (x, w), self.streak + 1 if timed else 0
        if self.streak <= 2:
            key = (w.shape, w.tobytes())
            if key != self.key:
                self.key, self.derived = key, derive(w)
        return np.hypot(x @ self.derived, 1.0)


new = Trusting


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 192)), "w": rng.standard_normal((192, 224))}


make.batch = 100
make.state = ("w",)
