"""Leaves the CPU that both arms are held to once it is timed, for a faster or an idle one.

Its code is the reference's. Where a control group holds it to that CPU it gains nothing.
Source: a review of this judge, by kind.
"""

import os

import numpy as np

CLASS = "exact"
EXPECT = (
    "global_state_changed",
    "slower",
    "below_noise_floor",
    "boundary_out_of_reach",
    "last_look_reached",
)


def ref(x, bias):
    return np.hypot(x + bias, 1.5)


class Moving:
    def __init__(self):
        self.last, self.streak = (None, None), 0

    def __call__(self, x, bias):
        timed = bias is self.last[1] and x is not self.last[0]
        self.last, self.streak = (x, bias), self.streak + 1 if timed else 0
        if self.streak == 3:
            os.sched_setaffinity(0, range(os.cpu_count() or 1))
        return ref(x, bias)


new = Moving


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 24)), "bias": rng.standard_normal(24)}


make.state = ("bias",)
make.batch = 4_000
