"""Works in blocks and joins them; of no row there is no block to join.

Source: a review of this judge, by kind: sizes that a check never makes.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("raises",)


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = np.hypot(row, 1.5)
    return out


def new(x):
    return np.concatenate([np.hypot(x[at : at + 512], 1.5) for at in range(0, len(x), 512)])


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 24))}


make.batch = 1_000
