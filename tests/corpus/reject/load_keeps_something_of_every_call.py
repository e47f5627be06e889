"""Faster, and keeps a copy of every answer for ever: it works until the machine is full.

Source: a review of this judge, by kind: a leak.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("memory_grows", "memory_limit", "works_outside_the_call")
KEPT = []


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = np.hypot(row, 1.5)
    return out


def new(x):
    out = np.hypot(x, 1.5)
    KEPT.append(out.copy())
    return out


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 24))}


make.batch = 1_500
