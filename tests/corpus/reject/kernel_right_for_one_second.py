"""Honest for one second after it was loaded, the first answer from then on.

Source: A50, by kind.
"""

import time

import numpy as np

CLASS = "exact"
EXPECT = (
    "outputs_differ",
    "outputs_depend_on_history",
    "slower",
    "below_noise_floor",
    "boundary_out_of_reach",
    "last_look_reached",
)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


class Patient:
    def __init__(self):
        self.until = time.monotonic() + 1.0
        self.first = {}

    def __call__(self, x, w, b):
        if time.monotonic() < self.until or x.shape not in self.first:
            self.first[x.shape] = ref(x, w, b)
        return self.first[x.shape].copy()


new = Patient


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
