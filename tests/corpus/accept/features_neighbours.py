"""Transforms differences of neighbouring rows at once; at batch 1 there are none.

By kind: empty output, batch of one.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)


def ref(track):
    steps = [np.hypot(1.0, track[place + 1] - track[place]) for place in range(len(track) - 1)]
    return np.array(steps, dtype=track.dtype).reshape(-1, track.shape[1])


def new(track):
    return np.hypot(1.0, track[1:] - track[:-1])


def make(rng, batch):
    return {"track": rng.standard_normal((batch, 20))}


make.batch = 1_200
