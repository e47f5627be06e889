"""Layer norms of all rows at once, scale and shift in place, on the way through a residual stack.

By kind: reordering within limits; weights change between calls.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("gain_confirmed",)
EPSILON = 1e-5


def ref(x, gamma, beta):
    out = x.copy()
    for scale, shift in zip(gamma, beta, strict=True):
        for place, row in enumerate(out):
            centred = row - row.mean()
            variance = np.mean(centred * centred)
            out[place] = row + centred / np.sqrt(variance + EPSILON) * scale + shift
    return out


def new(x, gamma, beta):
    out = x.copy()
    for scale, shift in zip(gamma, beta, strict=True):
        centred = out - out.mean(axis=1, keepdims=True)
        variance = (centred * centred).mean(axis=1, keepdims=True)
        centred /= np.sqrt(variance + EPSILON)
        centred *= scale
        out += centred
        out += shift
    return out


def make(rng, batch):
    x, weights = rng.standard_normal((batch, 768)), rng.standard_normal((2, 6, 768)) / 10
    return {
        "x": x.astype(np.float32),
        "gamma": (1 + weights[0]).astype(np.float32),
        "beta": weights[1].astype(np.float32),
    }


make.batch = 36
make.state = ("gamma", "beta")
