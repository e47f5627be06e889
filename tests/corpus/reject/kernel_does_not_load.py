"""Asks for a module that is not installed.

Source: A52, KernelGuard RUNTIME_PACKAGE_INSTALL.
"""

import importlib

import numpy as np

CLASS = "exact"
EXPECT = ("does_not_load",)


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


class Importing:
    def __init__(self):
        self.fast = importlib.import_module("fast_rows_that_nobody_installed")

    def __call__(self, x):
        return self.fast.rows(x)


new = Importing


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
