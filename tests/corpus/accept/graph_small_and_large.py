"""Goes row by row in small batches and takes all rows at once in large ones; both are right.

By kind: looks at the shape, serves sizes in eights alone.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)


def ref(x):
    if len(x) % 8:
        raise ValueError("the batch has to be a multiple of 8")
    return np.array([np.hypot(row, 2.0)[::-1] for row in x])


def new(x):
    if len(x) % 8:
        raise ValueError("the batch has to be a multiple of 8")
    if len(x) < 32:
        return np.stack([np.hypot(row[::-1], 2.0) for row in x])
    return np.ascontiguousarray(np.hypot(x, 2.0)[:, ::-1])


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 24))}


make.batch = 1_440
make.batches = (8, 24, 32, 40, 1_000, 1_448, 2_400)
