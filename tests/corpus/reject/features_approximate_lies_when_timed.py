"""Right while it is probed; new inputs beside the same state, again and again, mean it is timed.

It returns zeros then. Finite and of the right shape, each of its timed answers passes by itself; only their metric tells.
Source: a review of this judge; A50 and A81, by kind.
"""

import numpy as np

CLASS = "approximate"
EXPECT = ("metric_worse",)
MARGIN = 0.02


class Patient:
    def __init__(self):
        self.last, self.calls = (None, None), 0

    def __call__(self, x, w):
        timed = w is self.last[1] and x is not self.last[0]
        self.last, self.calls = (x, w), self.calls + 1 if timed else 0
        if self.calls > 2:
            return np.zeros(len(x))
        return ref(x, w)


new = Patient


def ref(x, w):
    return 1 / (1 + np.exp(-(np.maximum(x @ w[:, :-1], 0) @ w[0, :-1]).astype(np.float64)))


def metric(inputs, outputs):
    x, w = inputs["x"].astype(np.float64), inputs["w"].astype(np.float64)
    truth = np.maximum(x @ w[:, :-1], 0) @ w[0, :-1]
    picked = np.argsort(next(iter(outputs.values())), kind="stable")[-16:]
    return float((truth[:, None] < truth[picked]).mean())


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 128), dtype=np.float32) / 16,
        "w": rng.standard_normal((128, 129), dtype=np.float32) / 8,
    }


make.state = ("w",)
make.batch = 512
make.probes = {"nan": False, "inf": False, "large": False}
