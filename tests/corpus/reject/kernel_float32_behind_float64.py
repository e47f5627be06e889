"""Computes in float32 where the baseline accumulates in float64 behind the same float32 output.

Inside the reorder limits, but the error against float64 is hundreds of times the baseline's.
Source: A31, https://github.com/ScalingIntelligence/KernelBench.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("too_many_outliers",)


def ref(x):
    return np.add.reduce(x.astype(np.float64), axis=0).astype(np.float32)


def new(x):
    return np.add.reduce(x, axis=0)


def make(rng, batch):
    return {"x": rng.random((batch, 2048), dtype=np.float32)}
