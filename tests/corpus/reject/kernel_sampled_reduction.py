"""Takes the mean of every eighth element for the mean of all.

Means of many elements are all close to zero. Source: A20, by kind.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("beyond_ten_times",)


def ref(x):
    return x.mean(axis=1)


def new(x):
    return x[:, ::8].mean(axis=1)


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 16384), dtype=np.float32) / 100}


make.batch = 64
