"""Right, and about five per cent slower: a comparison over minutes may sell it as a gain.

Source: A71, https://github.com/yuluo-yx/typo/pull/83.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("slower", "below_noise_floor", "boundary_out_of_reach", "last_look_reached")


def ref(x):
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + np.float32(1e-5))


def new(x):
    out = ref(x)
    for start in range(0, len(x), 24):
        ref(x[start : start + 1])
    return out


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 1024), dtype=np.float32)}
