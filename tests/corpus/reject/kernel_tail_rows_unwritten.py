"""Works in blocks of 64 rows and leaves the rest of the rows unwritten.

Right for every multiple of 64. Source: A14, by kind (BackendBench).
"""

import numpy as np

CLASS = "exact"
EXPECT = ("non_finite", "outputs_differ")


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


def new(x):
    out = np.empty_like(x)
    for start in range(0, len(x) // 64 * 64, 64):
        block = x[start : start + 64]
        out[start : start + 64] = block / (1 + np.abs(block).max(axis=1, keepdims=True))
    return out


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
