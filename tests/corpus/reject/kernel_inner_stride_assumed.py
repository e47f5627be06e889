"""Takes the row stride from the array and the inner one for granted, as many native kernels do.

Wrong for transposed, Fortran-ordered and column-sliced inputs.
Source: a review of this judge, by kind: layouts that a check never makes.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x):
    out = np.empty(x.shape, dtype=x.dtype)
    for i, row in enumerate(x):
        out[i] = np.hypot(row, 1.5)
    return out


def new(x):
    rows = np.lib.stride_tricks.as_strided(x, x.shape, (x.strides[0], x.itemsize))
    return np.hypot(rows, 1.5)


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 24))}


make.batch = 1_000
