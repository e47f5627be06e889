"""Log-sum-exp that subtracts the maximum, all rows at once.

By kind: more accurate than the baseline, a few numbers per row.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("gain_confirmed",)
TEMPERATURES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)


def ref(x):
    out = np.empty((len(x), len(TEMPERATURES)), dtype=x.dtype)
    for place, row in enumerate(x):
        for column, temperature in enumerate(TEMPERATURES):
            out[place, column] = np.log(np.sum(np.exp(row * temperature)))
    return out


def new(x):
    out = np.empty((len(x), len(TEMPERATURES)), dtype=x.dtype)
    most = x.max(axis=1, keepdims=True)
    most = np.where(np.isfinite(most), most, 0).astype(x.dtype)
    centred = x - most
    for column, temperature in enumerate(TEMPERATURES):
        total = np.exp(centred * temperature).sum(axis=1, dtype=np.float64)
        out[:, column] = np.log(total) + most[:, 0] * temperature
    return out


def referee(x):
    return new(x)


def make(rng, batch):
    return {"x": (2 + rng.standard_normal((batch, 900))).astype(np.float32)}


make.batch = 60
