"""Prepares at load what one seed needs: no gain once the weights are others.

Source: A17, by kind (MLPerf rules).
"""

import numpy as np

CLASS = "exact"
EXPECT = ("slower", "below_noise_floor", "boundary_out_of_reach", "last_look_reached")


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


class Prepared:
    def __init__(self):
        fixed = make(np.random.default_rng(0), 256)
        self.w, self.b = fixed["w"], fixed["b"]

    def __call__(self, x, w, b):
        if np.array_equal(w, self.w) and np.array_equal(b, self.b):
            return ref(x, self.w, self.b)
        return ref(x, w, b)


new = Prepared


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
