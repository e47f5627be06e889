"""Replaces a standard module that is loaded already with one of its own.

Source: A42, A52 by kind.
"""

import pickle
import sys
import types

import numpy as np

CLASS = "exact"
EXPECT = ("global_state_changed",)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


class Shimmed:
    def __init__(self):
        shim = types.ModuleType("pickle")
        shim.__dict__.update(pickle.__dict__, loads=lambda data: None)
        sys.modules["pickle"] = shim

    def __call__(self, x, w, b):
        return ref(x, w, b)


new = Shimmed


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
