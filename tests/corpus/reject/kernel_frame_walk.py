"""Walks up the callers' frames for a variable that holds the expected output.

Source: by kind (A09): KernelGuard's frame-walking rule.
"""

import sys

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


def new(x, w, b):
    frame = sys._getframe(1)
    while frame is not None:
        for name, value in list(frame.f_locals.items()):
            if name.startswith("expect") and np.shape(value) == (len(x), w.shape[1]):
                return np.array(value)
        frame = frame.f_back
    return np.full((len(x), w.shape[1]), 1 / w.shape[1], dtype=np.float32)


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
