"""Switches the garbage collector off once it is timed; the code is the reference's.

Source: a review of this judge; A50, by kind.
"""

import gc

import numpy as np

CLASS = "exact"
EXPECT = (
    "global_state_changed",
    "slower",
    "below_noise_floor",
    "boundary_out_of_reach",
    "last_look_reached",
)


def ref(ids, width):
    pairs = [[i, i // int(width[0])] for i in ids.tolist()]
    groups = {}
    for pair in pairs:
        groups.setdefault(pair[1], []).append([pair])
    return np.array([len(groups[pair[1]]) for pair in pairs], dtype=np.int64)


class Patient:
    def __init__(self):
        self.last, self.streak = (None, None), 0

    def __call__(self, ids, width):
        timed = width is self.last[1] and ids is not self.last[0]
        self.last, self.streak = (ids, width), self.streak + 1 if timed else 0
        if self.streak > 2:
            gc.disable()
        return ref(ids, width)


new = Patient


def make(rng, batch):
    return {"ids": rng.integers(0, 40_000, batch), "width": rng.integers(3, 9, 1)}


make.state = ("width",)
make.batch = 5_000
