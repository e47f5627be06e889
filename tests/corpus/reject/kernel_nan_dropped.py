"""Vectorised with fmax, which ignores NaN where the baseline passes it on.

Source: by kind; probes of NaN content.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x):
    return np.array([row.max() for row in x], dtype=np.float32)


def new(x):
    return np.fmax.reduce(x, axis=1)


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
