"""Has another default for what may be left out: whoever leaves it out gets another answer.

Source: a review of this judge, by kind: calls that a check never makes.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x, floor=1.5):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = np.maximum(np.hypot(row, 1.5), floor)
    return out


def new(x, floor=2.5):
    return np.maximum(np.hypot(x, 1.5), floor)


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 24)), "floor": 1.75}


make.batch = 1_000
