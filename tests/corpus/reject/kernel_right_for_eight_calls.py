"""Honest for as many calls as five checks and a warm-up take, a copy of the last answer afterwards.

Source: A50, https://github.com/AMD-AGI/AgentKernelArena/issues/82.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


class Patient:
    def __init__(self):
        self.calls = 0
        self.last = {}

    def __call__(self, x, w, b):
        self.calls += 1
        if self.calls <= 8 or x.shape not in self.last:
            self.last[x.shape] = ref(x, w, b)
        return self.last[x.shape].copy()


new = Patient


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
