"""Takes 6 GiB of memory and touches every page.

The judge has to live, and to say what happened. Source: by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("memory_limit", "crashed")
UNSAFE = "it takes 6 GiB"


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


def new(x):
    held = [np.ones(2**25) for _ in range(24)]
    x = x + np.float32(0 * held[-1][0])
    return x / (1 + np.abs(x).max(axis=1, keepdims=True))


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
