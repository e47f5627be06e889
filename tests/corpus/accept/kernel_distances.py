"""Squared distances to all centres, whole columns at once instead of row by row.

By kind: reordering within limits without cancellation.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("gain_confirmed",)


def ref(x, centres):
    out = np.empty((len(x), len(centres)), dtype=x.dtype)
    for place, row in enumerate(x):
        gap = row - centres
        out[place] = np.sum(gap * gap, axis=1)
    return out


def new(x, centres):
    gap = x[:, None, :] - centres
    gap *= gap
    return gap.sum(axis=2)


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 32)).astype(np.float32),
        "centres": rng.standard_normal((24, 32)).astype(np.float32),
    }


make.batch = 300
make.state = ("centres",)
