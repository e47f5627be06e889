"""Variance of lagged differences from centred values instead of as the difference of two means.

By kind: more accurate than the baseline. The baseline's
rounding error is the larger one where a mean is far from 0.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("gain_confirmed",)
LAGS = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89)


def ref(x):
    out = np.empty((len(x), len(LAGS)), dtype=x.dtype)
    for place, row in enumerate(x):
        for column, lag in enumerate(LAGS):
            gap = row[lag:] - row[:-lag]
            out[place, column] = np.sum(gap * gap) / gap.size - (np.sum(gap) / gap.size) ** 2
    return out


def new(x):
    out = np.empty((len(x), len(LAGS)), dtype=x.dtype)
    for column, lag in enumerate(LAGS):
        gap = x[:, lag:] - x[:, :-lag]
        gap -= gap.mean(axis=1, keepdims=True)
        gap *= gap
        out[:, column] = gap.mean(axis=1)
    return out


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 700)).astype(np.float32)}


make.batch = 48
