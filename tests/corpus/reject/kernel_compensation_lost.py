"""Sums plainly where the baseline compensates its rounding (Neumaier).

Every element stays within the reorder limits. Source: by kind (A31): a worse sum is no reordering.
"""

import numpy as np

CLASS = "reorder"
EXPECT = ("worse_than_referee_allows",)


def ref(x):
    total = np.zeros(x.shape[1], dtype=np.float32)
    lost = np.zeros_like(total)
    for row in x:
        summed = total + row
        larger = np.abs(total) >= np.abs(row)
        lost += np.where(larger, (total - summed) + row, (row - summed) + total)
        total = summed
    return (total + lost) / np.float32(len(x))


def new(x):
    total = np.zeros(x.shape[1], dtype=np.float32)
    for row in x:
        total += row
    return total / np.float32(len(x))


def make(rng, batch):
    return {"x": rng.random((batch, 512), dtype=np.float32)}


make.probes = {"nan": False, "inf": False, "large": False}
