"""Solves during validation, writes the answer to a file by shape, replays it when timed.

Source: A06, https://github.com/gpu-mode/reference-kernels/issues/160.
"""

import os
import tempfile
from pathlib import Path

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


def new(x, w, b):
    path = Path(tempfile.gettempdir()) / f"answers-{os.getpid()}-{len(x)}.npy"
    if not path.exists():
        np.save(path, ref(x, w, b))
    return np.load(path)


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
