"""Raises KeyError for a value that is not finite, where the reference raises ValueError.

Nobody who catches the one catches the other.
Source: a review of this judge, by kind: an error is an answer.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("raises",)


def ref(x):
    for row in x:
        if not np.isfinite(row).all():
            raise ValueError("a value is not finite")
    return np.hypot(x, 1.5)


def new(x):
    if not np.isfinite(x).all():
        raise KeyError(0)
    return np.hypot(x, 1.5)


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 24))}


make.batch = 1_000
