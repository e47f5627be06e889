"""Softmax in place on one buffer instead of with temporaries and two exponentials.

By kind: reordering within limits, function with a buffer of its own per call. The referee has more
digits than float64, so the baseline's own error is seen.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("gain_confirmed",)
STEPS = 4


def ref(x):
    for _ in range(STEPS):
        most = np.max(x, axis=1, keepdims=True)
        total = np.sum(np.exp(x - most), axis=1, keepdims=True)
        x = x + np.exp(x - most) / total
    return x


def new(x):
    x = x.copy()
    out = np.empty_like(x)
    for _ in range(STEPS):
        np.subtract(x, x.max(axis=1, keepdims=True), out=out)
        np.exp(out, out=out)
        out *= 1 / out.sum(axis=1, keepdims=True)
        x += out
    return x


def referee(x):
    return ref(x.astype(np.longdouble)).astype(np.float64)


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 384))}


make.batch = 130
