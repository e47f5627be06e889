"""Replays the last result when eight elements and the shape look the same.

Fresh random content defeats it only if what it samples changes, and weights it never samples.
Source: A03, https://github.com/flashinfer-ai/flashinfer-bench-starter-kit/issues/21.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


class Fingerprinted:
    def __init__(self):
        self.seen = self.last = None

    def __call__(self, x, w, b):
        seen = (x.shape, x.ravel()[:8].tobytes())
        if seen != self.seen:
            self.seen, self.last = seen, ref(x, w, b)
        return self.last.copy()


new = Fingerprinted


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
