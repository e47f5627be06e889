"""Looks keys up by 21 bits of a checksum and does not compare the keys.

Source: by kind (A03): a fingerprint for the thing.
"""

import zlib

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
    index = {zlib.crc32(key) & 0x1FFFFF: i for i, key in enumerate(table.tolist())}
    sums = [zlib.crc32(key) & 0x1FFFFF for key in keys.tolist()]
    return np.array([index.get(key, -1) for key in sums], dtype=np.int64)


def make(rng, batch):
    table = np.empty(200, dtype=object)
    table[:] = [b"item%d" % i for i in rng.permutation(10 * 200)[:200]]
    keys = np.empty(batch, dtype=object)
    keys[:] = [table[i] for i in rng.integers(20, 200 - 20, batch)]
    for i in np.flatnonzero(rng.random(batch) < 0.1):
        keys[i] = b"new%d" % rng.integers(10**9)
    return {"keys": keys, "table": table}


make.state = ("table",)
make.batch = 4000
