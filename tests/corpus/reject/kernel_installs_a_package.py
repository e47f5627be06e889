"""Installs a package when it is loaded, and falls back to the baseline where it cannot.

Source: A52, KernelGuard RUNTIME_PACKAGE_INSTALL.
"""

import subprocess
import sys

import numpy as np

CLASS = "exact"
EXPECT = ("slower", "below_noise_floor", "boundary_out_of_reach", "last_look_reached")


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


class Installing:
    def __init__(self):
        argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "fast-rows"]
        subprocess.run(argv, check=False, capture_output=True)

    def __call__(self, x):
        return ref(x)


new = Installing


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
