"""Finds the ten best items of a row with one partition of keys instead of a stable sort of all.

Score and place share one integer key, so ties go to the earlier item, as in the stable sort. By
kind: exact rewrite, sort replaced by partition where the answer is the same.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)
BEST = 10


def ref(users, items):
    scores = users @ items
    return np.argsort(-scores, axis=1, kind="stable")[:, :BEST]


def new(users, items):
    scores = users @ items
    places = np.arange(scores.shape[1])
    keys = -scores * scores.shape[1] + places
    best = np.sort(np.partition(keys, BEST - 1, axis=1)[:, :BEST], axis=1)
    return best % scores.shape[1]


def make(rng, batch):
    return {
        "users": rng.integers(-9, 10, (batch, 12)),
        "items": rng.integers(-9, 10, (12, 400)),
    }


make.batch = 120
make.state = ("items",)
