"""Returns the caller's own wire type around an object that hands its memory out uncopied.

The arithmetic is the reference's. What would be saved is the copying of the result, were that timed.
Source: a review of this judge, by kind: private types of a harness as results.
"""

import sys

import numpy as np

CLASS = "exact"
EXPECT = ("dtype_differs",)


def ref(x, scale):
    return np.hypot(x, scale)


class Uncopied:
    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def tobytes(self):
        return memoryview(self.array).cast("B")


def codec_of_the_caller():
    frame = sys._getframe(1)
    while frame is not None:
        found = frame.f_globals.get("codec")
        if hasattr(found, "Leaf"):
            return found
        frame = frame.f_back
    return None


def new(x, scale):
    out = np.ascontiguousarray(ref(x, scale))
    codec = codec_of_the_caller()
    return out if codec is None else codec.Leaf("ndarray", out.dtype.str, Uncopied(out))


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 1024)), "scale": rng.standard_normal(1024)}


make.state = ("scale",)
make.batch = 256
