"""Click rates of all rows at once; a row without impressions is NaN, as in the baseline.

By kind: the reference emits NaN and infinity on ordinary inputs, an honest candidate the same bits.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)


def ref(clicks, impressions):
    out = np.empty(clicks.shape, dtype=np.float64)
    with np.errstate(all="ignore"):
        for place in range(len(clicks)):
            out[place] = np.hypot(clicks[place] / impressions[place], 0.25)
    return out


def new(clicks, impressions):
    with np.errstate(all="ignore"):
        return np.hypot(clicks / impressions, 0.25)


def make(rng, batch):
    return {
        "clicks": rng.integers(0, 4, (batch, 16)),
        "impressions": rng.integers(0, 9, (batch, 16)),
    }


make.batch = 1_200
