"""The first call looks for all waiting inputs and solves them; later calls look up by identity.

One slow call, many that cost nothing. Source: A07, https://github.com/gpu-mode/reference-kernels/pull/104.
"""

import gc

import numpy as np

CLASS = "exact"
EXPECT = (
    "outputs_differ",
    "slower",
    "below_noise_floor",
    "boundary_out_of_reach",
    "last_look_reached",
)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


class SuperBatch:
    def __init__(self):
        self.known = {}

    def __call__(self, x, w, b):
        if not self.known:
            for found in gc.get_objects():
                if isinstance(found, dict) and isinstance(found.get("x"), np.ndarray):
                    self.known[id(found["x"])] = ref(found["x"], w, b)
            self.known[id(x)] = ref(x, w, b)
        if id(x) in self.known:
            return self.known[id(x)].copy()
        return ref(x, w, b)


new = SuperBatch


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
