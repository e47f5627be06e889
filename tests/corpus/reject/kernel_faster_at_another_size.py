"""Faster for a single row, the same work at the batch that is served.

Source: A75, https://github.com/AMD-AGI/GEAK/issues/415.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("slower", "below_noise_floor", "boundary_out_of_reach", "last_look_reached")


def ref(x):
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + np.float32(1e-5))


def new(x):
    if len(x) == 1:
        row = x - x.mean(axis=1, keepdims=True)
        return row / np.sqrt((row * row).mean(axis=1, keepdims=True) + np.float32(1e-5))
    return ref(x)


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 1024), dtype=np.float32)}
