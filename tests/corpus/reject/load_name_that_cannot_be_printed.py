"""One output more, whose name is half of a surrogate pair: no file can hold the report as it is.

Source: a review of this judge, by kind: names are a candidate's to choose.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("output_extra",)


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = np.hypot(row, 1.5)
    return {"out": out}


def new(x):
    return {"out": np.hypot(x, 1.5), "\ud800": np.zeros(1)}


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 24))}


make.batch = 1_000
