"""Tuned for the timed batch; at every other size it takes twice as long as the reference.

Source: a review of this judge; A75, by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("slower",)


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = np.hypot(row, 1.5)
    return out


def new(x):
    if len(x) == 1_500:
        return np.hypot(x, 1.5)
    ref(x)
    return ref(x)


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 24))}


make.batch = 1_500
