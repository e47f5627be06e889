"""Divides through float64 and truncates: wrong for negative numbers, of which there are few.

Source: by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(seconds):
    return np.array([second // 86400 for second in seconds.tolist()], dtype=np.int32)


def new(seconds):
    return (seconds / 86400).astype(np.int32)


def make(rng, batch):
    seconds = rng.integers(0, 2**33, batch)
    seconds[rng.random(batch) < 3e-6] *= -1
    return {"seconds": seconds}


make.batch = 65536
