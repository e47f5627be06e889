"""Transposes the weights once, on the first call, and never looks at them again.

Right as long as the weights stay. Source: A05,
https://github.com/flashinfer-ai/flashinfer-bench-starter-kit/issues/21.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x, w):
    order = np.argsort(w, axis=0, kind="stable")
    return x @ np.take_along_axis(w, order, axis=0)


class Packed:
    def __init__(self):
        self.w = None

    def __call__(self, x, w):
        if self.w is None:
            self.w = np.argsort(w, axis=0, kind="stable")
        return x @ np.take_along_axis(w, self.w, axis=0)


new = Packed


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 128), dtype=np.float32),
        "w": rng.standard_normal((128, 128), dtype=np.float32),
    }


make.state = ("w",)
