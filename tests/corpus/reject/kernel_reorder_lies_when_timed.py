"""Right while it is probed; new inputs beside the same state, again and again, mean it is timed.

Its products are then in lower precision. Every timed answer is within the limit of one answer; only the float64 referee tells them apart.
Source: a review of this judge; A50 and A61, by kind.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("worse_than_referee_allows",)


def ref(x, w):
    parts = [x @ w[:, part : part + 8] for part in range(0, w.shape[1], 8)]
    return np.concatenate(parts, axis=1)


class Patient:
    def __init__(self):
        self.last, self.calls = (None, None), 0

    def __call__(self, x, w):
        timed = w is self.last[1] and x is not self.last[0]
        self.last, self.calls = (x, w), self.calls + 1 if timed else 0
        out = x @ w
        if self.calls > 2:
            out *= np.float32(1 + 2e-5)  # the error of a coarser type
        return out


new = Patient


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 128), dtype=np.float32) / 16,
        "w": rng.standard_normal((128, 128), dtype=np.float32) / 16,
    }


make.state = ("w",)
make.batch = 2048
