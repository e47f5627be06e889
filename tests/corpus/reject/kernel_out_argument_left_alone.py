"""Does half of the work and never writes the array that the reference fills for its caller.

What is returned is None in both: the contract is an `out` argument, as of most kernels.
Source: a review of this judge, by kind: arguments after the call are outputs.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x, out):
    np.hypot(x, 1.5, out=out)


def new(x, out):
    np.hypot(x[: len(x) // 2], 1.5)


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 24)), "out": np.zeros((batch, 24))}


make.batch = 2_000
