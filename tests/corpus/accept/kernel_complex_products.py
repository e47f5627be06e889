"""Complex products of all rows at once, in double precision, instead of row by row.

By kind: more accurate than the baseline, complex numbers.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("gain_confirmed",)


def ref(x, w):
    return np.stack([w @ row for row in x])


def new(x, w):
    return (x.astype(np.complex128) @ w.T.astype(np.complex128)).astype(x.dtype)


def make(rng, batch):
    x = rng.standard_normal((batch, 16, 2), dtype=np.float32).view(np.complex64)[..., 0]
    w = rng.standard_normal((24, 16, 2), dtype=np.float32).view(np.complex64)[..., 0]
    return {"x": x, "w": w}


make.state = ("w",)
make.batch = 1_500
make.probes = {"inf": False}  # libraries multiply by infinite numbers each in their own way
