"""Turns memory mapping and trimming of the process's allocator off; the code is the same.

No page faults for it, and whoever serves beside it never gets its memory back.
Source: a review of this judge, by kind: a setting of the whole process.
"""

import ctypes

import numpy as np

CLASS = "exact"
EXPECT = (
    "global_state_changed",
    "slower",
    "below_noise_floor",
    "boundary_out_of_reach",
    "last_look_reached",
)
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4


def ref(x, grid):
    wide = x[:, None] * grid
    np.abs(wide, out=wide)
    return wide.max(axis=1)


class Tuned:
    def __init__(self):
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, 1 << 30)

    def __call__(self, x, grid):
        return ref(x, grid)


new = Tuned


def make(rng, batch):
    return {"x": rng.standard_normal(batch), "grid": rng.standard_normal(2560)}


make.state = ("grid",)
make.batch = 2_048
