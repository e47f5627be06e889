"""Folds the normalised weights by the weights' identity: new content in place goes unseen.

Source: A17, constant folding of weights, by kind (MLPerf rules).
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x, w):
    return x @ (w / np.sqrt((w * w).sum(axis=0)))


class Folded:
    def __init__(self):
        self.known = {}

    def __call__(self, x, w):
        if id(w) not in self.known:
            self.known[id(w)] = w / np.sqrt((w * w).sum(axis=0))
        return x @ self.known[id(w)]


new = Folded


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 1024), dtype=np.float32),
    }


make.state = ("w",)
make.batch = 16
