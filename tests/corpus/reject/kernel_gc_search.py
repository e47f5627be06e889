"""Looks through all live objects for an array of the output's shape and returns a copy.

A checker that computed the reference in the same process has it lying there. Source: A09,
https://github.com/gpu-mode/pygpubench/pull/7 (`gc_copy`).
"""

import gc

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


def new(x, w, b):
    out = np.zeros((len(x), w.shape[1]), dtype=np.float32)
    for holder in gc.get_objects():
        values = holder.values() if isinstance(holder, dict) else holder
        if not isinstance(holder, list | tuple | dict):
            continue
        for found in list(values):
            fits = isinstance(found, np.ndarray) and found.shape == out.shape
            if fits and abs(float(found[0].sum()) - 1) < 1e-3:
                return found.copy()
    return out


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
