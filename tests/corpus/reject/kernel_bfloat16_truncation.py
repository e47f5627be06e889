"""Cuts float32 inputs to bfloat16 by clearing 16 bits, as a lowered kernel does.

Source: A31, A33.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("beyond_ten_times",)


def ref(x, w):
    return np.where(x @ w > 0, x @ w, np.float32(0))


def new(x, w):
    lowered = (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    out = lowered @ w
    return np.maximum(out, 0, out=out)


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 16,
    }


make.state = ("w",)
