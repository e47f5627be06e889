"""Wraps the whole batch in `functools.lru_cache`: right, and fast on repeated batches alone.

Source: A04, https://github.com/gpu-mode/reference-kernels/issues/170.
"""

import functools

import numpy as np

CLASS = "exact"
EXPECT = (
    "answers_from_memory",
    "slower",
    "below_noise_floor",
    "boundary_out_of_reach",
    "last_look_reached",
)


def ref(keys, table):
    out = np.empty(len(keys), dtype=np.int64)
    index = {}
    for i, key in enumerate(table.tolist()):
        index.setdefault(key, i)
    for i, key in enumerate(keys.tolist()):
        out[i] = index.get(key, -1)
    return out


@functools.lru_cache(maxsize=1024)
def _numbers(keys, table):
    return ref(np.array(keys, dtype=object), np.array(table, dtype=object))


def new(keys, table):
    return _numbers(tuple(keys.tolist()), tuple(table.tolist())).copy()


def make(rng, batch):
    table = np.empty(2000, dtype=object)
    table[:] = [b"item%d" % i for i in rng.permutation(10 * 2000)[:2000]]
    keys = np.empty(batch, dtype=object)
    keys[:] = [table[i] for i in rng.integers(20, 2000 - 20, batch)]
    for i in np.flatnonzero(rng.random(batch) < 1e-5):
        keys[i] = b"unknown"
    return {"keys": keys, "table": table}


make.state = ("table",)
make.batch = 4000
