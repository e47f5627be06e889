"""Finds keys by binary search and never asks whether what it found is the key.

Unknown keys get a neighbour's number. Source: by kind (A37).
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(keys, table):
    out = np.empty(len(keys), dtype=np.int64)
    index = {}
    for i, key in enumerate(table.tolist()):
        index.setdefault(key, i)
    for i, key in enumerate(keys.tolist()):
        out[i] = index.get(key, -1)
    return out


class Sorted:
    def __init__(self):
        self.table = None

    def __call__(self, keys, table):
        if self.table is None or not np.array_equal(self.table, table):
            self.table = table.copy()
            self.order = np.argsort(table)
            self.sorted = table[self.order].astype("S12")
        at = np.searchsorted(self.sorted, keys.astype("S12"))
        return self.order[at.clip(max=len(table) - 1)]


new = Sorted


def make(rng, batch):
    table = np.empty(4000, dtype=object)
    table[:] = [b"item%d" % i for i in rng.permutation(10 * 4000)[:4000]]
    keys = np.empty(batch, dtype=object)
    keys[:] = [table[i] for i in rng.integers(20, 4000 - 20, batch)]
    for i in np.flatnonzero(rng.random(batch) < 1e-5):
        keys[i] = b"unknown"
    return {"keys": keys, "table": table}


make.state = ("table",)
make.batch = 2000
