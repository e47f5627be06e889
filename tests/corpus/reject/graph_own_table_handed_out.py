"""Hands out its own cached table in every answer: a caller that writes to it spoils all later ones.

Source: a review of this judge, by kind: memory that a result shares with the next one.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("output_buffer_reused",)


def positions():
    place = np.arange(128)[:, None]
    angle = place / 10_000 ** (2 * (np.arange(64) // 2) / 64)
    return np.where(np.arange(64) % 2, np.cos(angle), np.sin(angle))


TABLE = positions()


def ref(x):
    return {"scores": np.hypot(x, 1.5).sum(axis=1), "positions": positions()}


def new(x):
    return {"scores": np.hypot(x, 1.5).sum(axis=1), "positions": TABLE}


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 24))}


make.batch = 1_000
