"""Replaces the built-in `sorted`, which a checker uses too.

Source: A42, by kind.
"""

import builtins

import numpy as np

CLASS = "exact"
EXPECT = ("global_state_changed",)


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


class Patching:
    def __init__(self):
        builtins.sorted = lambda values, **options: list(values)

    def __call__(self, x):
        return x / (1 + np.abs(x).max(axis=1, keepdims=True))


new = Patching


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
