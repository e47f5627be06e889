"""Computes a feature once per distinct user of the batch and spreads it to that user's rows.

Repeats inside one request are the workload's, so leaving them out is a true gain on fresh content.
By kind: exact rewrite, work shared inside one call, nothing kept between calls.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)


def profile(users):
    seed = np.asarray(users, dtype=np.int64)
    total = np.zeros((len(seed), 16), dtype=np.int64)
    for step in range(1, 9):
        seed = (seed * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) ^ (seed >> 17)
        total += (seed[:, None] >> np.arange(16)) % (step + 7)
    return total


def ref(users):
    return profile(users)


def new(users):
    distinct, inverse = np.unique(users, return_inverse=True)
    return profile(distinct)[inverse]


def make(rng, batch):
    return {"users": rng.integers(0, max(1, batch // 4), batch) + rng.integers(0, 1 << 40)}


make.batch = 2_000
