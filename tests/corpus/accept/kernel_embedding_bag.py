"""Gathers all rows of all bags at once and adds them with reduceat, bag by bag.

By kind: reordering within limits; the table changes between calls.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("gain_confirmed",)


def ref(table, ids):
    return np.stack([table[bag].sum(axis=0) for bag in ids])


def new(table, ids):
    rows = table.take(ids.ravel(), axis=0)
    return np.add.reduceat(rows, np.arange(0, ids.size, ids.shape[1]), axis=0)


def make(rng, batch):
    return {
        "table": rng.standard_normal((1_000, 24)).astype(np.float32),
        "ids": rng.integers(0, 1_000, (batch, 16)),
    }


make.batch = 1_000
make.state = ("table",)
