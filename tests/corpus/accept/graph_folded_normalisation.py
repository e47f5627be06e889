"""Folds four affine maps into one scale and one shift, in float64, and applies it once.

By kind: operators fused; fewer roundings than the baseline has.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("gain_confirmed",)


def ref(x, scale, shift):
    for factor, offset in zip(scale, shift, strict=True):
        x = x * factor + offset
    return np.stack([np.hypot(row, x.dtype.type(1)) for row in x])


def new(x, scale, shift):
    factor, offset = np.ones(x.shape[1]), np.zeros(x.shape[1])
    for one, other in zip(scale.astype(np.float64), shift.astype(np.float64), strict=True):
        factor, offset = factor * one, offset * one + other
    return np.hypot((x * factor + offset).astype(x.dtype), x.dtype.type(1))


def make(rng, batch):
    scale, shift = 1 + rng.random((6, 80)), rng.standard_normal((6, 80))
    return {
        "x": rng.standard_normal((batch, 80)).astype(np.float32),
        "scale": scale.astype(np.float32),
        "shift": shift.astype(np.float32),
    }


make.batch = 1_000
make.probes = {"inf": False}  # infinite factors cannot be folded
make.state = ("scale", "shift")
