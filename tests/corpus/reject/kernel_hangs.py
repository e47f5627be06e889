"""Never returns for a batch that is not the benchmark's.

The judge has to live, and to say what happened. Source: by kind.
"""

import time

import numpy as np

CLASS = "exact"
EXPECT = ("hangs",)


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


def new(x):
    while len(x) != 256:
        time.sleep(0.01)
    return x / (1 + np.abs(x).max(axis=1, keepdims=True))


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
