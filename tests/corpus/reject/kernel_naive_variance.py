"""Takes the variance as E[x^2] - E[x]^2, in one pass over data far from zero.

It cancels catastrophically. Source: A31 by kind; the reason for a float64 referee.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("too_many_outliers",)


def ref(x):
    centred = x - x.mean(axis=1, keepdims=True)
    return (centred * centred).mean(axis=1)


def new(x):
    mean = x.mean(axis=1)
    return np.einsum("ij,ij->i", x, x) / np.float32(x.shape[1]) - mean * mean


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 2048), dtype=np.float32) + np.float32(30)}


make.probes = {"large": False}
