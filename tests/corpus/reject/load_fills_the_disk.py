"""Writes 3 GiB to the temporary folder.

The judge has to live, and to say what happened. Source: by kind.
"""

import tempfile

import numpy as np

CLASS = "exact"
EXPECT = ("raises", "memory_limit", "output_limit", "crashed")
UNSAFE = "it writes 3 GiB"


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


def new(x):
    with tempfile.TemporaryFile() as file:
        for _ in range(3 * 64):
            file.write(bytes(2**24))
    return x / (1 + np.abs(x).max(axis=1, keepdims=True))


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
