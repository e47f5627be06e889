"""Makes the process's clock leave out nine tenths of its own time.

Source: A42, https://github.com/gpu-mode/reference-kernels/issues/162.
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
        self.true, self.saved = time.perf_counter, 0.0
        time.perf_counter = lambda: self.true() - self.saved

    def __call__(self, x, w, b):
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
