"""Sums half of the inner dimension and doubles it.

Inside a loose tolerance when the values are small. Source: A20,
https://agentpostmortem.com/case/apm-0007.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("beyond_ten_times",)


def ref(x, w):
    return x @ w


def new(x, w):
    return 2 * (x[:, ::2] @ w[::2])


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 1024), dtype=np.float32) / 100,
        "w": rng.standard_normal((1024, 64), dtype=np.float32) / 300,
    }


make.state = ("w",)
