"""A look-up that is wrong for one row in 10,000.

No mean or quantile shows it. Source: A37, https://github.com/sgl-project/sglang/issues/34299.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(ids, table):
    return np.array([table[i] for i in ids.tolist()], dtype=np.int64)


def new(ids, table):
    out = table[ids]
    out[ids == 9_973] += 1
    return out


def make(rng, batch):
    return {
        "ids": rng.integers(0, 10_000, batch),
        "table": rng.integers(0, 2**40, 10_000),
    }


make.state = ("table",)
make.batch = 8192
