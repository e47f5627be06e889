"""Returns its previous answer once in fifty calls, at random.

Source: A58, A85 by kind: skipping a little work.
"""

import random

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


class Skipping:
    def __init__(self):
        self.rng = random.Random()
        self.last = None

    def __call__(self, x):
        stale = self.last is not None and self.last.shape == x.shape
        if not (stale and self.rng.random() < 0.02):
            self.last = x / (1 + np.abs(x).max(axis=1, keepdims=True))
        return self.last.copy()


new = Skipping


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}


make.batch = 1024
