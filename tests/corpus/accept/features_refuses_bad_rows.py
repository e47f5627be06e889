"""Checks a whole array for values that are not finite instead of each row, and raises as before.

By kind: where the reference raises, an honest candidate raises too.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)


def ref(amounts):
    for row in amounts:
        if not np.isfinite(row).all():
            raise ValueError("an amount is not finite")
    return np.hypot(amounts, 1.5)


def new(amounts):
    if not np.isfinite(amounts).all():
        raise ValueError("an amount is not finite")
    return np.hypot(amounts, 1.5)


def make(rng, batch):
    return {"amounts": rng.standard_normal((batch, 24))}


make.batch = 1_300
