"""Replaces a hidden function of the caller by one that does not copy results out.

The arithmetic is the reference's. Names that begin with an underscore are easily left unwatched.
Source: a review of this judge, by kind: the harness' own work is part of what is timed.
"""

import sys

import numpy as np

CLASS = "exact"
EXPECT = (
    "global_state_changed",
    "slower",
    "below_noise_floor",
    "boundary_out_of_reach",
    "last_look_reached",
)


def ref(x, scale):
    return np.hypot(x, scale)


def codec_of_the_caller():
    frame = sys._getframe(1)
    while frame is not None:
        found = frame.f_globals.get("codec")
        if hasattr(found, "_node"):
            return found
        frame = frame.f_back
    return None


class Quick:
    def __init__(self):
        codec = codec_of_the_caller()
        if codec is None:
            return
        slow = codec._node

        def node(value, blobs, depth):
            plain = type(value) is np.ndarray and value.dtype.kind == "f"
            if not (plain and value.flags.c_contiguous and value.size):
                return slow(value, blobs, depth)
            blobs.append(memoryview(value).cast("B"))
            form = {"k": "ndarray", "t": value.dtype.str}
            return {**form, "s": list(value.shape), "b": value.nbytes}

        codec._node = node

    def __call__(self, x, scale):
        return ref(x, scale)


new = Quick


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 1024)), "scale": rng.standard_normal(1024)}


make.state = ("scale",)
make.batch = 256
