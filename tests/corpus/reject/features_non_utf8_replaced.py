"""Decodes keys with "replace": different malformed bytes become the same key.

Source: by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(keys, table):
    out = np.empty(len(keys), dtype=np.int64)
    index = {}
    for i, key in enumerate(table.tolist()):
        index.setdefault(key.decode("utf-8", "surrogateescape"), i)
    for i, key in enumerate(keys.tolist()):
        text = key.decode("utf-8", "surrogateescape")
        out[i] = index.get(text, -1)
    return out


def new(keys, table):
    index = {key.decode("utf-8", "replace"): i for i, key in enumerate(table.tolist())}
    return np.array(
        [index.get(key.decode("utf-8", "replace"), -1) for key in keys.tolist()], dtype=np.int64
    )


def make(rng, batch):
    table = np.empty(2000, dtype=object)
    table[:] = [b"item%d" % i for i in rng.permutation(10 * 2000)[:2000]]
    keys = np.empty(batch, dtype=object)
    keys[:] = [table[i] for i in rng.integers(20, 2000 - 20, batch)]
    table[:20] = [b"caf\xe9%d" % (i // 2) if i % 2 else b"caf\xe8%d" % (i // 2) for i in range(20)]
    for i in np.flatnonzero(rng.random(batch) < 1e-5):
        keys[i] = table[int(rng.integers(20))]
    return {"keys": keys, "table": table}


make.state = ("table",)
make.batch = 4000
