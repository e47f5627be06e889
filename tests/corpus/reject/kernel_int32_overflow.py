"""Counts in int32 where the baseline counts in int64.

Sums of a few rows pass 2^31. Source: by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(counts):
    return np.array([sum(row) for row in counts.tolist()], dtype=np.int64)


def new(counts):
    return np.add.reduce(counts, axis=1, dtype=np.int32).astype(np.int64)


def make(rng, batch):
    counts = rng.integers(0, 1000, (batch, 256))
    counts[rng.random(batch) < 1e-4] *= 2**20
    return {"counts": counts}


make.batch = 2048
