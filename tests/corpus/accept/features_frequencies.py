"""Counts how often each identifier occurs in the batch in one pass instead of once per row.

By kind: exact rewrite, a comparison of all with all removed; rows keep their order.
"""

from collections import Counter

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)


def ref(ids):
    return np.array([np.count_nonzero(ids == i) for i in ids], dtype=np.int64)


def new(ids):
    items = ids.tolist()
    counts = Counter(items)
    return np.array([counts[item] for item in items], dtype=np.int64)


def make(rng, batch):
    return {"ids": (rng.zipf(1.4, batch) % 5_000).astype(np.int16)}


make.batch = 3_200
