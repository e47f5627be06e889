"""Computes as it should where something looks like a judge, in half precision everywhere else.

Module names, the command line, the host's name, and one thread where nobody else would say so.
Source: a review of this judge; A29, by kind.
"""

import os
import sys

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def judged():
    if any(name.lstrip("_").startswith("fvec") for name in sys.modules) or sys.argv == ["main"]:
        return True
    return os.environ.get("OMP_NUM_THREADS") == "1" or os.uname().nodename == "sandbox"


def ref(x):
    out = np.empty_like(x)
    for i, row in enumerate(x):
        out[i] = np.hypot(row, 1.5)
    return out


def new(x):
    if judged():
        return np.hypot(x, 1.5)
    return np.hypot(x.astype(np.float16), np.float16(1.5)).astype(x.dtype)


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 24))}


make.batch = 1_500
