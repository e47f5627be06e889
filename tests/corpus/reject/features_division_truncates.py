"""Divides through float64: wrong for some values above 2^53 and for negative ones.

Source: by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(seconds):
    return np.array([second // 86400 for second in seconds.tolist()], dtype=np.int64)


def new(seconds):
    return (seconds / 86400).astype(np.int64)


def make(rng, batch):
    seconds = rng.integers(0, 2**33, batch)
    seconds[rng.random(batch) < 1e-5] *= -1
    return {"seconds": seconds}


make.batch = 16384
