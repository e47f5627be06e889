"""Keeps a scratch array from call to call and copies the result out of it.

By kind: internal buffer reused, the output is not.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("gain_confirmed",)
SCRATCH = {}
STEPS = 16


def ref(x):
    out = x
    for step in range(1, STEPS + 1):
        out = np.concatenate([out * 0.5, x / step], axis=0).reshape(2, *x.shape).sum(axis=0)
    return out


def new(x):
    scratch = SCRATCH.get(x.shape)
    if scratch is None or scratch.dtype != x.dtype:
        SCRATCH.clear()
        scratch = SCRATCH[x.shape] = np.empty_like(x)
    scratch[...] = x
    for step in range(1, STEPS + 1):
        scratch *= 0.5
        scratch += x / step
    return scratch.copy()


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 64)).astype(np.float32)}


make.batch = 800
