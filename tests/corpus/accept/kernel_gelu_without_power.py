"""GELU in place, with products instead of a general power, layer by layer.

By kind: reordering within limits, strength reduction; float64, where the referee is the baseline
itself and a last digit is all that can differ.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("gain_confirmed",)
SCALE = float(np.sqrt(2 / np.pi))
LAYERS = 3


def ref(x):
    for _ in range(LAYERS):
        x = x + 0.5 * x * (
            1 + np.tanh(SCALE * (x + 0.044715 * np.sign(x) * np.power(np.abs(x), 3.0)))
        )
    return x


def new(x):
    x = x.copy()
    for _ in range(LAYERS):
        inner = x * x
        inner *= 0.044715
        inner += 1
        inner *= x
        inner *= SCALE
        np.tanh(inner, out=inner)
        inner += 1
        inner *= x
        inner *= 0.5
        x += inner
    return x


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256))}


make.batch = 128
