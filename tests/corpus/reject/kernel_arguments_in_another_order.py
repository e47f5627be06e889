"""Takes its arguments in another order: whoever calls it by position gets another answer.

Source: a review of this judge, by kind: calls that a check never makes.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x, y, floor=1.5):
    out = np.empty_like(x)
    for i, (a, b) in enumerate(zip(x, y, strict=True)):
        out[i] = np.maximum(np.hypot(a, 1.5) - b, floor)
    return out


def new(y, x, floor=1.5):
    return np.maximum(np.hypot(x, 1.5) - y, floor)


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 24)), "y": rng.random((batch, 24)), "floor": 1.5}


make.batch = 1_000
