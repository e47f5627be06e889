"""Returns a view of the caller's array where the baseline returns a copy.

A caller that edits the result edits its input. Source: by kind (A26).
"""

import numpy as np

CLASS = "exact"
EXPECT = ("output_aliases_input",)


def ref(x):
    return {"dense": x[:, :512].copy(), "sparse": x[:, 512:].copy()}


def new(x):
    return {"dense": x[:, :512], "sparse": x[:, 512:]}


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 1024), dtype=np.float32)}


make.batch = 1024
