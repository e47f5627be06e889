"""Returns a plain tuple, its dictionary in another order, where the reference returns a named one.

Source: a review of this judge, by kind: containers are part of an answer.
"""

from typing import NamedTuple

import numpy as np

CLASS = "exact"
EXPECT = ("dtype_differs",)


class Found(NamedTuple):
    scores: np.ndarray
    sizes: dict


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = np.hypot(row, 1.5)
    return Found(out, {"rows": len(x), "columns": x.shape[1]})


def new(x):
    return np.hypot(x, 1.5), {"columns": x.shape[1], "rows": len(x)}


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 24))}


make.batch = 1_000
