"""Answers 0.0 where the baseline answers -0.0.

Equal by every tolerance; 1/x of it is not. Source: by kind: `exact` means bits.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x):
    return x * (x > 0).astype(np.float32)


def new(x):
    return np.maximum(x, 0)


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 4096), dtype=np.float32)}
