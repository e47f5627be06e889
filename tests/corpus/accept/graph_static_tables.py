"""Rebuilds its look-up structure only when the vocabulary's content changes.

By kind: precomputed table of a state that is replaced now and then, keyed by content.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)


class Index:
    def __init__(self):
        self.content = None
        self.places = {}

    def of(self, keys):
        content = keys.tobytes()
        if content != self.content:
            self.places = {key: place for place, key in enumerate(keys.tolist())}
            self.content = content
        return self.places


INDEX = Index()


def ref(keys, ids):
    places = {key: place for place, key in enumerate(keys.tolist())}
    return np.array([places.get(i, -1) for i in ids.tolist()], dtype=np.int32)


def new(keys, ids):
    get = INDEX.of(keys).get
    return np.array([get(i, -1) for i in ids.tolist()], dtype=np.int32)


def make(rng, batch):
    return {"keys": rng.permutation(20_000)[:12_000], "ids": rng.integers(0, 20_000, batch)}


make.batch = 5_000
make.state = ("keys",)
