"""A setting that no code reads: the same thing, timed under another name.

Source: A23, A73, https://github.com/MakazhanAlpamys/Soup/issues/801.
"""

import numpy as np

CLASS = "config"
EXPECT = ("slower", "below_noise_floor", "boundary_out_of_reach", "last_look_reached")


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = row / (1 + np.abs(row).max())
    return out


SETTINGS = {"threads": 8, "fast_path": True}


class Configured:
    def __init__(self):
        self.settings = dict(SETTINGS)

    def __call__(self, x):
        return ref(x)


new = Configured


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 256), dtype=np.float32)}
