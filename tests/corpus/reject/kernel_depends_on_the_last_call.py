"""Carries a running scale from call to call: the same input gives another output later.

Source: by kind (A85): state that a server keeps between requests.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


class Running:
    def __init__(self):
        self.largest = np.zeros(0, dtype=np.float32)

    def __call__(self, x):
        largest = np.abs(x).max(axis=1, keepdims=True)
        if self.largest.shape == largest.shape:
            largest = np.maximum(largest, self.largest)
        self.largest = largest * np.float32(0.999)
        return x / (1 + largest)


new = Running


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
