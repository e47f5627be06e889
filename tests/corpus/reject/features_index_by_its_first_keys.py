"""Rebuilds its index when the first four keys of the table change.

Source: a review of this judge, by kind: a key that sees a part of a table of whole numbers.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


class Index:
    def __init__(self):
        self.seen, self.places = None, {}

    def of(self, keys):
        seen = (len(keys), keys[:4].tobytes())
        if seen != self.seen:
            self.seen = seen
            self.places = {key: place for place, key in enumerate(keys.tolist())}
        return self.places


INDEX = Index()


def ref(keys, ids):
    places = {key: place for place, key in enumerate(keys.tolist())}
    return np.array([places.get(i, -1) for i in ids.tolist()], dtype=np.int32)


def new(keys, ids):
    get = INDEX.of(keys).get
    return np.array([get(i, -1) for i in ids.tolist()], dtype=np.int32)


def make(rng, batch):
    return {"keys": rng.permutation(5_000)[:3_000], "ids": rng.integers(0, 5_000, batch)}


make.batch = 4_000
make.state = ("keys",)
