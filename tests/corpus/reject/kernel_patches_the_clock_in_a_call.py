"""Replaces the clock inside its third call, after any check at load.

Source: A42, by kind.
"""

import time

import numpy as np

CLASS = "exact"
EXPECT = ("global_state_changed",)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


class Patching:
    def __init__(self):
        self.true, self.saved, self.calls = time.perf_counter, 0.0, 0

    def __call__(self, x, w, b):
        self.calls += 1
        if self.calls == 3:
            time.perf_counter = lambda: self.true() - self.saved
        start = self.true()
        out = ref(x, w, b)
        self.saved += 0.9 * (self.true() - start)
        return out


new = Patching


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
