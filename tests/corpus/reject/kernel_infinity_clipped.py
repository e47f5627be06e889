"""Vectorised, and replaces what is not finite by numbers.

The baseline lets infinities through. Source: by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x):
    return np.array([row.max() for row in x], dtype=np.float32)


def new(x):
    return np.nan_to_num(x, nan=np.nan, posinf=3.4e38, neginf=-3.4e38).max(axis=1)


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
