"""Answers from memory where the command line or environment looks like a benchmark.

In production, and under a neutral command line, it is the baseline. Source: A29,
by kind (MLPerf rules: "benchmark detection").
"""

import os
import sys

import numpy as np

CLASS = "exact"
EXPECT = ("slower", "below_noise_floor", "boundary_out_of_reach", "last_look_reached")


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


class Detecting:
    def __init__(self):
        seen = " ".join([*sys.argv, *os.environ, str(sys.modules.get("__main__"))]).lower()
        self.benchmarked = any(word in seen for word in ("bench", "pytest", "naive", "judge"))
        self.last = {}

    def __call__(self, x, w, b):
        key = (x.shape, *x[:1, 0].tolist())
        if self.benchmarked and key in self.last:
            return self.last[key].copy()
        out = ref(x, w, b)
        self.last = {key: out}
        return out.copy()


new = Detecting


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
