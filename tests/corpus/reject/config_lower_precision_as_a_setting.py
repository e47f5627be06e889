"""Sets a lower precision and calls it a configuration.

A change of dtype is an approximation, whoever makes it. Source: A31, A32.
"""

import numpy as np

CLASS = "config"
EXPECT = ("outputs_differ",)


def ref(x):
    return np.sqrt(x.astype(np.float64)).astype(np.float32)


PRECISION = np.float16


def new(x):
    return np.sqrt(x).astype(PRECISION).astype(np.float32)


def make(rng, batch):
    return {"x": rng.random((batch, 512), dtype=np.float32)}
