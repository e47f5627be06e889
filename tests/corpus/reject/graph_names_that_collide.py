"""Leaves out the costly output, whose nested name is another one's flat name once joined by a dot.

Source: a review of this judge, by kind: two outputs under one name.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x):
    return {"user": {"scores": np.hypot(x, 1.5)}, "user.scores": np.hypot(x[:, :24], 1.5)}


def new(x):
    return {"user": {"scores": np.zeros_like(x)}, "user.scores": np.hypot(x[:, :24], 1.5)}


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 48))}


make.batch = 1_000
