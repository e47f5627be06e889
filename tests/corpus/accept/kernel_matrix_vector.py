"""Matrix products split over the inner dimension instead of one matrix-vector product per row.

By kind: reordering within limits, split of a GEMM.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("gain_confirmed",)


def ref(x, w):
    return np.stack([w @ row for row in x])


def new(x, w):
    parts = np.matmul(
        x.reshape(len(x), 8, -1).swapaxes(0, 1), w.reshape(len(w), 8, -1).transpose(1, 2, 0)
    )
    return parts.sum(axis=0)


def make(rng, batch):
    w = rng.standard_normal((256, 512)) / 16
    return {
        "x": rng.standard_normal((batch, 512)).astype(np.float32),
        "w": w.astype(np.float32),
    }


make.batch = 160
make.state = ("w",)
