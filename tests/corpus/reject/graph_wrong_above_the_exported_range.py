"""A package exported for at most 512 rows computes modulo 512 above, without an error.

Source: by kind, https://github.com/pytorch/pytorch/issues/150364.
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
    rows = np.arange(len(x)) % 512
    return (x / (1 + np.abs(x).max(axis=1, keepdims=True)))[rows]


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
