"""Five float inputs; what derives from the fifth is kept by that input's first row.

Source: a review of this judge, by kind: a key that sees a part of an input.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def derive(w):
    scale = np.hypot(w, 1e-3).max(axis=1, keepdims=True)
    return np.hypot(w / scale, 0.5) * np.sign(w)


class First:
    def __init__(self):
        self.key = self.derived = None

    def __call__(self, x, shift, gain, floor, w):
        key = (w.shape, w[0].tobytes())
        if key != self.key:
            self.key, self.derived = key, derive(w)
        return np.maximum(np.hypot((x + shift) @ self.derived, 1.0) * gain, floor)


def ref(x, shift, gain, floor, w):
    return np.maximum(np.hypot((x + shift) @ derive(w), 1.0) * gain, floor)


new = First


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 96)),
        "shift": rng.standard_normal(96),
        "gain": rng.standard_normal(112),
        "floor": rng.standard_normal(112),
        "w": rng.standard_normal((96, 112)),
    }


make.batch = 100
make.state = ("shift", "gain", "floor", "w")
