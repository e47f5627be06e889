"""Takes turns between three output buffers: a caller that holds three results loses one.

Source: A26, by kind: one call more hides it from a check of the last result.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("output_buffer_reused", "outputs_depend_on_history")


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


class Buffered:
    def __init__(self):
        self.out = {}
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        key = (x.shape, self.calls % 3)
        out = self.out.setdefault(key, np.empty_like(x))
        return np.divide(x, 1 + np.abs(x).max(axis=1, keepdims=True), out=out)


new = Buffered


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
