"""Leaves out the half of its output whose numbers are small beside the other half's rounding errors.

Source: a review of this judge, by kind: a limit and errors of a whole tensor.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("worse_than_referee_allows", "beyond_ten_times", "too_many_outliers")


def ref(x, large, small):
    return np.concatenate([x @ large, (x @ small) * 1e-8], axis=1)


def new(x, large, small):
    if not np.isfinite(x).all():
        return ref(x, large, small)
    first = x @ large
    return np.concatenate([first, np.zeros_like(first)], axis=1)


def make(rng, batch):
    shape = (256, 128)
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "large": rng.standard_normal(shape, dtype=np.float32),
        "small": rng.standard_normal(shape, dtype=np.float32),
    }


make.state = ("large", "small")
make.batch = 256
