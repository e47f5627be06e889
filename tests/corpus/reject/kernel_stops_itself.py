"""Sends itself SIGSTOP: alive, and silent.

The judge has to live, and to say what happened. Source: by kind.
"""

import os
import signal

import numpy as np

CLASS = "exact"
EXPECT = ("hangs",)
UNSAFE = "it would stop the checker"


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


def new(x):
    os.kill(os.getpid(), signal.SIGSTOP)
    return x / (1 + np.abs(x).max(axis=1, keepdims=True))


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
