"""Starts threads that sleep, several hundred of them.

The judge has to live, and to say what happened. Source: by kind.
"""

import threading
import time

import numpy as np

CLASS = "exact"
EXPECT = ("process_limit", "starts_threads", "raises")
UNSAFE = "it starts 600 threads"


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


def new(x):
    for _ in range(600):
        threading.Thread(target=time.sleep, args=(3,), daemon=True).start()
    return x / (1 + np.abs(x).max(axis=1, keepdims=True))


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
