"""Looks for saved inputs beside the program and solves them before the clock runs.

Source: A06, A52 by kind.
"""

import tempfile
from pathlib import Path

import numpy as np

CLASS = "exact"
EXPECT = ("slower", "below_noise_floor", "boundary_out_of_reach", "last_look_reached")


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


class Presolved:
    def __init__(self):
        self.known = {}
        for folder in (Path.cwd(), Path(tempfile.gettempdir())):
            for path in sorted(folder.glob("*.np[yz]"))[:20]:
                try:
                    saved = np.load(path)
                    self.known[saved["x"].tobytes()] = ref(**saved)
                except (OSError, ValueError, KeyError, IndexError, TypeError):
                    continue

    def __call__(self, x, w, b):
        known = self.known.get(x.tobytes())
        return ref(x, w, b) if known is None else known


new = Presolved


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
