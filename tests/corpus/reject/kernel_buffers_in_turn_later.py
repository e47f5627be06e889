"""Eighteen results in arrays of their own, then three large buffers in turn.

A caller that holds four results loses one. Who holds the first results to look at them again, as
far as memory allows, sees nothing: they are 16 MB each.
Source: a review of this judge, by kind: right until nobody looks.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("output_buffer_reused",)
OWN, TURN = 18, 3


def ref(x, grid):
    return np.repeat(x[:, None], len(grid), axis=1) * grid


class Pool:
    def __init__(self):
        self.calls, self.ring = {}, {}

    def buffer(self, shape, dtype):
        calls = self.calls[shape] = self.calls.get(shape, 0) + 1
        if calls <= OWN:
            return np.empty(shape, dtype)
        return self.ring.setdefault((shape, dtype, calls % TURN), np.empty(shape, dtype))

    def __call__(self, x, grid):
        out = self.buffer((len(x), len(grid)), x.dtype)
        return np.multiply(x[:, None], grid, out=out)


new = Pool


def make(rng, batch):
    return {
        "x": rng.standard_normal(batch, dtype=np.float32),
        "grid": rng.standard_normal(2_048, dtype=np.float32),
    }


make.state = ("grid",)
make.batch = 2_000
