"""Each call starts a timer whose work runs after the call has returned.

It prepares what the next call looks up. Source: A40, by kind.
"""

import threading

import numpy as np

CLASS = "exact"
EXPECT = ("starts_threads",)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


class Deferred:
    def __init__(self):
        self.scratch = None

    def prepare(self):
        self.scratch = np.sort(np.random.default_rng(0).random(200_000))

    def __call__(self, x, w, b):
        timer = threading.Timer(0.001, self.prepare)
        timer.start()
        return ref(x, w, b)


new = Deferred


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
