"""Solves the inputs of the usual seeds when it is loaded and knows them by their first value.

Source: A06, A44 by kind: published seeds are known answers.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("slower", "below_noise_floor", "boundary_out_of_reach", "last_look_reached")


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


class Guessing:
    def __init__(self):
        self.known = {}
        for seed in (*range(10), 42, 1234):
            inputs = make(np.random.default_rng(seed), 256)
            self.known[float(inputs["x"][0, 0])] = ref(**inputs)

    def __call__(self, x, w, b):
        known = self.known.get(float(x[0, 0])) if len(x) else None
        return ref(x, w, b) if known is None or len(known) != len(x) else known.copy()


new = Guessing


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
