"""Sums in another order and says that nothing changed.

Right under `reorder`; not what it claims. Source: A36 by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x):
    return np.array([np.add.reduce(row) for row in x], dtype=np.float32)


def new(x):
    return np.einsum("ij->i", x)


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 1000), dtype=np.float32)}
