"""Writes every result into one buffer: the next call overwrites what the caller holds.

Source: A26, common with CUDA graphs.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("output_buffer_reused",)


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


class Buffered:
    def __init__(self):
        self.out = {}

    def __call__(self, x):
        out = self.out.setdefault(x.shape, np.empty_like(x))
        return np.divide(x, 1 + np.abs(x).max(axis=1, keepdims=True), out=out)


new = Buffered


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
