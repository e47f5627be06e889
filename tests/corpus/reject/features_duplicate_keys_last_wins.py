"""Builds the table as a dictionary: of two equal keys the last wins, in the baseline the first.

Source: by kind.
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


def new(keys, table):
    index = dict(zip(table.tolist(), range(len(table)), strict=True))
    return np.array([index.get(key, -1) for key in keys.tolist()], dtype=np.int64)


def make(rng, batch):
    table = np.empty(2000, dtype=object)
    table[:] = [b"item%d" % i for i in rng.permutation(10 * 2000)[:2000]]
    keys = np.empty(batch, dtype=object)
    keys[:] = [table[i] for i in rng.integers(20, 2000 - 20, batch)]
    table[-10:] = table[:10]
    for i in np.flatnonzero(rng.random(batch) < 1e-5):
        keys[i] = table[int(rng.integers(10))]
    return {"keys": keys, "table": table}


make.state = ("table",)
make.batch = 4000
