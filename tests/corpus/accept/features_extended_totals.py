"""Totals in extended precision of all rows at once; the name of the first good one may be empty.

By kind: exact rewrite; dtypes of more than eight bytes, a text of numpy's that is empty now and then.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)
GOOD = 48


def named(totals):
    good = np.flatnonzero(totals > GOOD)
    return totals, np.array(f"row{good[0]}" if len(good) else "")[()]


def ref(x):
    return named(np.array([np.hypot(row, 1.5).astype(np.longdouble).sum() for row in x]))


def new(x):
    return named(np.hypot(x, 1.5).astype(np.longdouble).sum(axis=1))


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 24))}


make.batch = 1_500
