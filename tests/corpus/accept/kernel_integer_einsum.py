"""Contracts three integer tensors in a cheaper order; integers wrap alike in any order.

By kind: einsum path that is equal bit for bit.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)


def ref(x, first, second):
    return np.einsum("bi,ij,jk->bk", x, first, second)


def new(x, first, second):
    return np.einsum("bj,jk->bk", np.einsum("bi,ij->bj", x, first), second)


def make(rng, batch):
    return {
        "x": rng.integers(-(1 << 40), 1 << 40, (batch, 8)),
        "first": rng.integers(-9, 9, (8, 8)),
        "second": rng.integers(-(1 << 30), 1 << 30, (8, 8)),
    }


make.batch = 3_000
make.state = ("first", "second")
