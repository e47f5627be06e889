"""Switches numpy's floating-point warnings off for the whole process.

Whoever serves beside it pays for it. Source: A51 by kind: global state.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("global_state_changed",)


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


class Configured:
    def __init__(self):
        np.seterr(all="ignore")

    def __call__(self, x):
        return x / (1 + np.abs(x).max(axis=1, keepdims=True))


new = Configured


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
