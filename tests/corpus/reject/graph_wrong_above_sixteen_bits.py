"""Numbers rows in 16 bits: right up to 65,536 of them.

Source: a review of this judge, by kind: sizes that a check never makes.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[len(x) - 1 - i] = np.hypot(row, 1.5)
    return out


def new(x):
    rows = np.arange(len(x)).astype(np.uint16)[::-1]
    return np.hypot(x, 1.5)[rows]


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 12))}


make.batch = 3_000
