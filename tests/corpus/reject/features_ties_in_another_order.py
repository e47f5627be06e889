"""Sorts faster with an unstable sort: equal scores come out in another order.

Source: by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(scores):
    return np.stack(
        [np.array(sorted(range(len(row)), key=row.__getitem__)) for row in scores.tolist()]
    )


def new(scores):
    return np.argsort(scores, axis=1)


def make(rng, batch):
    return {"scores": rng.random((batch, 300), dtype=np.float32)}


make.batch = 32
