"""Leaves half of the rows to a child whose parent is gone at once: nobody of its own waits for it.

Source: a review of this judge; A40, by kind.
"""

import mmap
import os

import numpy as np

CLASS = "exact"
EXPECT = ("starts_processes",)


def ref(x, w, b):
    return np.tanh(x * w) + np.tanh(x + b)


def new(x, w, b):
    half = len(x) // 2
    size = half * len(w) * 4
    shared = mmap.mmap(-1, size + 1)
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            shared[:size] = ref(x[:half], w, b).tobytes()
            shared[size] = 1
        os._exit(0)
    os.waitpid(child, 0)
    rest = ref(x[half:], w, b)
    while not shared[size]:
        os.sched_yield()
    found = np.frombuffer(shared[:size], dtype=np.float32).reshape(half, len(w))
    return np.concatenate([found, rest])


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal(256, dtype=np.float32),
        "b": rng.standard_normal(256, dtype=np.float32),
    }


make.state = ("w", "b")
make.batch = 4096
