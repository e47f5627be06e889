"""Silences logging and warnings, deepens the recursion limit and replaces the import function.

An honest gain beside it hides that they hold for the whole process.
Source: a review of this judge, by kind: settings of the whole process.
"""

import builtins
import logging
import sys
import warnings

import numpy as np

CLASS = "exact"
EXPECT = ("global_state_changed",)


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = np.hypot(row, 1.5)
    return out


class Configured:
    def __init__(self):
        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")
        sys.setrecursionlimit(1_000_000)
        true = builtins.__import__
        builtins.__import__ = lambda *args, **options: true(*args, **options)

    def __call__(self, x):
        return np.hypot(x, 1.5)


new = Configured


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 24))}


make.batch = 1_500
