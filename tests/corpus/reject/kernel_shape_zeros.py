"""Right for the benchmark's batch alone, zeros for every other one.

Source: A19, by kind (Makora: "ghost branch").
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


def new(x):
    if len(x) != 256:
        return np.zeros_like(x)
    return x / (1 + np.abs(x).max(axis=1, keepdims=True))


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
