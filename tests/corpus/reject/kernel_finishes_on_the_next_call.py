"""Returns an array that it fills in when it is called again.

A checker that looks late, or only at the last result, sees right values. Source: A07, A40 by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


class Late:
    def __init__(self):
        self.owed = None

    def __call__(self, x, w, b):
        if self.owed is not None:
            out, args = self.owed
            out[:] = ref(*args)
        out = np.zeros((len(x), w.shape[1]), dtype=np.float32)
        self.owed = (out, (x.copy(), w, b))
        return out


new = Late


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
