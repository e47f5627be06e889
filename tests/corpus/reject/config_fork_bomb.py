"""Forks children that sleep, several hundred of them.

The judge has to live, and to say what happened. Source: by kind.
"""

import os
import time

import numpy as np

CLASS = "exact"
EXPECT = ("process_limit", "starts_processes", "raises")
UNSAFE = "it forks 600 processes"


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


def new(x):
    for _ in range(600):
        if os.fork() == 0:
            time.sleep(3)
            os._exit(0)
    return x / (1 + np.abs(x).max(axis=1, keepdims=True))


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
