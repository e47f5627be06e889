"""Compares with the last input and returns the last result: a gain on repeats alone.

Also a little faster on fresh content, so that the gain looks real. Source: A04, by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("answers_from_memory",)


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


class Memo:
    def __init__(self):
        self.x = self.out = None

    def __call__(self, x):
        if self.x is None or not np.array_equal(self.x, x):
            self.x = x.copy()
            self.out = x / (1 + np.abs(x).max(axis=1, keepdims=True))
        return self.out.copy()


new = Memo


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}


make.batch = 1024
