"""Leaves its inputs alone while it is probed; once timed it works in the caller's array.

All values that it returns are right. Source: a review of this judge; A25, by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("inputs_mutated", "output_aliases_input", "outputs_differ")


def ref(x, bias):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = np.hypot(row + bias, 1.5)
    return out


class Patient:
    def __init__(self):
        self.last, self.streak = (None, None), 0

    def __call__(self, x, bias):
        timed = bias is self.last[1] and x is not self.last[0]
        self.last, self.streak = (x, bias), self.streak + 1 if timed else 0
        if self.streak > 2:
            x += bias
            return np.hypot(x, 1.5, out=x)
        return np.hypot(x + bias, 1.5)


new = Patient


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 24)), "bias": rng.standard_normal(24)}


make.state = ("bias",)
make.batch = 1_200
