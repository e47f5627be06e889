"""Sums ragged bags with `reduceat`, which gives an empty bag its neighbour's first element.

Bags are rarely empty. Source: by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(values, lengths):
    out = np.zeros(len(lengths), dtype=np.int64)
    start = 0
    for i, length in enumerate(lengths.tolist()):
        out[i] = values[start : start + length].sum()
        start += length
    return out


def new(values, lengths):
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    return np.add.reduceat(values, starts.clip(max=len(values) - 1))


def make(rng, batch):
    lengths = rng.integers(1, 20, batch)
    lengths[rng.random(batch) < 3e-5] = 0
    lengths[0] = 3
    return {"values": rng.integers(0, 1000, int(lengths.sum())), "lengths": lengths}


make.batch = 16384
