"""Folds the case of keys, which the baseline tells apart.

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
    index = {key.lower(): i for i, key in enumerate(table.tolist())}
    return np.array([index.get(key.lower(), -1) for key in keys.tolist()], dtype=np.int64)


def make(rng, batch):
    table = np.empty(200, dtype=object)
    table[:] = [b"item%d" % i for i in rng.permutation(10 * 200)[:200]]
    keys = np.empty(batch, dtype=object)
    keys[:] = [table[i] for i in rng.integers(20, 200 - 20, batch)]
    for i in np.flatnonzero(rng.random(batch) < 1e-5):
        keys[i] = keys[i].upper()
    return {"keys": keys, "table": table}


make.state = ("table",)
make.batch = 4000
