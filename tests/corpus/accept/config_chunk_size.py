"""Works in chunks of 256 rows instead of 4: one constant, no other line.

By kind: a change of configuration whose outputs are equal bit for bit.
"""

import numpy as np

CLASS = "config"
EXPECT = ("gain_confirmed",)


def serve(x, rows_per_chunk):
    parts = [
        np.hypot(x[start : start + rows_per_chunk], 3.0)
        for start in range(0, len(x), rows_per_chunk)
    ]
    return np.concatenate(parts)


def ref(x):
    return serve(x, 4)


def new(x):
    return serve(x, 256)


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 8))}


make.batch = 5_600
