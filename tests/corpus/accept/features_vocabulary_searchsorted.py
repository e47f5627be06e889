"""Looks identifiers up by binary search in the sorted vocabulary instead of a dictionary per call.

Unknown identifiers stay 0 and of a duplicate the last place counts, as in the dictionary. By kind:
exact rewrite of a look-up, table given with every call.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)


def ref(vocabulary, ids):
    places = {int(key): place for place, key in enumerate(vocabulary)}
    return np.array([places.get(int(i), -1) + 1 for i in ids], dtype=np.int64)


def new(vocabulary, ids):
    order = np.argsort(vocabulary, kind="stable")
    keys = vocabulary[order]
    found = np.searchsorted(keys, ids, side="right") - 1
    known = (found >= 0) & (keys[found] == ids)
    return np.where(known, order[found] + 1, 0)


def make(rng, batch):
    vocabulary = rng.permutation(np.append(rng.choice(20_000, 4_000, replace=False), [7, 7]))
    return {"vocabulary": vocabulary, "ids": rng.integers(0, 20_000, (batch,))}


make.batch = 8_192
make.state = ("vocabulary",)
