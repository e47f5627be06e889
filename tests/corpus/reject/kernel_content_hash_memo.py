"""Keeps results by a hash of the whole content: right, and fast on repeats alone.

A benchmark that repeats its inputs measures the look-up. Source: A04,
https://github.com/gpu-mode/reference-kernels/issues/148.
"""

import zlib

import numpy as np

CLASS = "exact"
EXPECT = (
    "answers_from_memory",
    "slower",
    "below_noise_floor",
    "boundary_out_of_reach",
    "last_look_reached",
)


def ref(x):
    return np.tanh(np.sort(x, axis=1))


class Memo:
    def __init__(self):
        self.known = {}

    def __call__(self, x):
        key = (x.shape, zlib.crc32(x.tobytes()))
        if key not in self.known:
            self.known[key] = ref(x)
        return self.known[key].copy()


new = Memo


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 512), dtype=np.float32)}
