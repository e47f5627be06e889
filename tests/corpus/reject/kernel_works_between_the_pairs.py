"""Leaves freeing and collecting to a signal handler that runs while the next inputs are drawn.

No thread, no process; the timer exists in timed calls alone, and has fired when anybody asks. CPU
time that is read around calls is not that between them. Source: a review of this judge; A40, by kind.
"""

import gc
import signal

import numpy as np

CLASS = "exact"
EXPECT = (
    "works_outside_the_call",
    "global_state_changed",
    "slower",
    "below_noise_floor",
    "boundary_out_of_reach",
    "last_look_reached",
)


def grouped(ids, width):
    pairs = [[i, i // int(width[0])] for i in ids.tolist()]
    groups = {}
    for pair in pairs:
        groups.setdefault(pair[1], []).append([pair])
    return pairs, groups


def counted(pairs, groups):
    return np.array([len(groups[pair[1]]) for pair in pairs], dtype=np.int64)


def ref(ids, width):
    return counted(*grouped(ids, width))


class Deferring:
    def __init__(self):
        self.last, self.streak, self.grave = (None, None), 0, []

    def tidy(self, number, frame):
        self.grave.clear()
        gc.collect()
        gc.enable()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def __call__(self, ids, width):
        timed = width is self.last[1] and ids is not self.last[0]
        self.last, self.streak = (ids, width), self.streak + 1 if timed else 0
        if self.streak <= 2:
            return ref(ids, width)
        gc.disable()
        signal.signal(signal.SIGALRM, self.tidy)
        found = grouped(ids, width)
        self.grave.append(found)
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        return counted(*found)


new = Deferring


def make(rng, batch):
    return {"ids": rng.permutation(500_000)[:batch] // 50, "width": rng.integers(3, 9, 1)}


make.state = ("width",)
make.batch = 5_000
