"""Two elements of a large output are off by ninety times the limit.

A mean over all elements hides them. Source: A37, https://github.com/sgl-project/sglang/issues/34299.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("beyond_ten_times",)


def ref(x):
    return np.sqrt(x.astype(np.float64)).astype(np.float32)


def new(x):
    out = np.sqrt(x)
    out.ravel()[:: max(1, out.size // 2)] += np.float32(0.009)
    return out


def make(rng, batch):
    return {"x": rng.random((batch, 512), dtype=np.float32)}


make.batch = 512
