"""Strips white space around keys, which the baseline takes as part of them.

Source: by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(keys, table):
    out = np.empty(len(keys), dtype=np.int64)
    places = np.argsort(table, kind="stable")
    ordered = table[places]
    for i, key in enumerate(keys):
        at = np.searchsorted(ordered, key)
        out[i] = places[at] if at < len(table) and ordered[at] == key else -1
    return out


def new(keys, table):
    index = dict(zip(table.tolist(), range(len(table)), strict=True))
    joined = b"\n".join(keys.tolist()).split()
    return np.array([index.get(key, -1) for key in joined], dtype=np.int64)


def make(rng, batch):
    table = np.empty(200, dtype=object)
    table[:] = [b"item%d" % i for i in rng.permutation(10 * 200)[:200]]
    keys = np.empty(batch, dtype=object)
    keys[:] = [table[i] for i in rng.integers(20, 200 - 20, batch)]
    for i in np.flatnonzero(rng.random(batch) < 1e-5):
        keys[i] = keys[i] + b" "
    return {"keys": keys, "table": table}


make.state = ("table",)
make.batch = 8192
