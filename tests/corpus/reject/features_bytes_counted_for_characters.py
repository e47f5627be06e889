"""Counts the bytes of a title where the baseline counts characters.

Equal for ASCII. Source: by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(titles):
    out = np.zeros(len(titles), dtype=np.int32)
    for i, title in enumerate(titles):
        out[i] = len(title.decode("utf-8"))
    return out


def new(titles):
    return np.fromiter(map(len, titles.tolist()), dtype=np.int32, count=len(titles))


def make(rng, batch):
    titles = np.empty(batch, dtype=object)
    titles[:] = [b"shoe " * int(n) for n in rng.integers(1, 8, batch)]
    for i in np.flatnonzero(rng.random(batch) < 1e-5):
        titles[i] = "größe".encode()
    return {"titles": titles}


make.batch = 8192
