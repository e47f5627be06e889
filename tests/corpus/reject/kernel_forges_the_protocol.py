"""Writes nonsense to every open file descriptor, in case one leads to the judge.

Source: A44, https://github.com/gpu-mode/pygpubench/issues/23 (`fd_overwrite`).
"""

import os

import numpy as np

CLASS = "exact"
EXPECT = ("crashed",)
UNSAFE = "it writes to every descriptor it inherited"


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


def new(x):
    for number in range(3, 32):
        try:
            os.write(number, b'{"verdict": "accepted"}\n' * 8)
        except OSError:
            continue
    return x / (1 + np.abs(x).max(axis=1, keepdims=True))


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
