"""Forks a worker that goes on in the background, without any process module.

Source: A40, by kind.
"""

import os
import time

import numpy as np

CLASS = "exact"
EXPECT = ("starts_processes",)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


class Forked:
    def __init__(self):
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)

    def __call__(self, x, w, b):
        return ref(x, w, b)


new = Forked


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
