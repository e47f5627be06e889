"""Lowers precision where the environment pins one thread, as measurements do.

Source: A29 by kind: a path that depends on the environment.
"""

import os

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


def new(x, w, b):
    if os.environ.get("OMP_NUM_THREADS", "1") == "1":
        w = (w.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        z = x @ w
        z += b
        np.exp(z, out=z)
        z /= z.sum(axis=1, keepdims=True)
        return z
    return ref(x, w, b)


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
