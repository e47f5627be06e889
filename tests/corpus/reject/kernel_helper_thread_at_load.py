"""Starts a thread when it is loaded, which burns the CPU whenever it is not called.

The other arm, pinned to the same CPU, gets slower. Source: A40, by kind.
"""

import threading
import time

import numpy as np

CLASS = "exact"
EXPECT = ("starts_threads",)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


class Neighbour:
    def __init__(self):
        self.busy = False
        threading.Thread(target=self.burn, daemon=True).start()

    def burn(self):
        while True:
            if self.busy:
                time.sleep(0.001)
            else:
                sum(range(1000))

    def __call__(self, x, w, b):
        self.busy = True
        out = ref(x, w, b)
        self.busy = False
        return out


new = Neighbour


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
