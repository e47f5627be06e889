"""Returns one read-only array under two names where the reference returns two that can be edited.

Source: a review of this judge, by kind: memory that results share with each other.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_share_memory", "output_not_writable")


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = np.hypot(row, 1.5)
    return {"shown": out, "logged": out.copy()}


def new(x):
    out = np.hypot(x, 1.5)
    out.flags.writeable = False
    return {"shown": out, "logged": out}


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 24))}


make.batch = 1_500
