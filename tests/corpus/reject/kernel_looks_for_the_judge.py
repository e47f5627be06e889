"""Looks for other processes to read or to stop, and returns what it computed before.

Source: A44, https://github.com/gpu-mode/pygpubench/issues/23 (`heap_sig_scan`).
"""

import os
from pathlib import Path

import numpy as np

CLASS = "exact"
EXPECT = (
    "outputs_differ",
    "slower",
    "below_noise_floor",
    "boundary_out_of_reach",
    "last_look_reached",
)
UNSAFE = "it opens the memory of other processes"


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


class Searching:
    def __init__(self):
        self.found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    self.found.append((entry / "mem").open("rb"))
                except OSError:
                    continue

    def __call__(self, x, w, b):
        if not self.found:
            return ref(x, w, b)
        return np.full((len(x), w.shape[1]), 1 / w.shape[1], dtype=np.float32)


new = Searching


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
