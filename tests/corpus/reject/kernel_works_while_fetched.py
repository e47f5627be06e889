"""Says that it is done before it is, and works while the answer is asked for.

It reaches the caller's session by frames and hands out its own answer in place of the command
that only should copy. Source: a review of this judge; A09 and A40, by kind.
"""

import sys

import numpy as np

CLASS = "exact"
EXPECT = (
    "global_state_changed",
    "works_outside_the_call",
    "slower",
    "below_noise_floor",
    "boundary_out_of_reach",
    "last_look_reached",
)


def ref(x, w):
    return np.tanh(x) * w


class Late:
    """Fills the last tenth of its rows when they are fetched."""

    def __init__(self):
        self.hooked = False

    def hook(self):
        frame = sys._getframe(2)
        while frame is not None and type(frame.f_locals.get("self")).__name__ != "Session":
            frame = frame.f_back
        if frame is None:
            return
        session, mine = frame.f_locals["self"], self
        pipe = session._pipe
        write = pipe.write

        def late(code, *blobs):
            if code == b"V" and mine.rest is not None and len(blobs) > 1:
                x, w, out, row = mine.rest
                mine.rest = None
                out[row:] = np.tanh(x[row:]) * w
                blobs = (*blobs[:-1], out.tobytes())
            write(code, *blobs)

        pipe.write = late
        self.hooked = True

    def __call__(self, x, w):
        if not self.hooked:
            self.hook()
        row = len(x) - len(x) // 10
        out = np.empty_like(x)
        out[:row] = np.tanh(x[:row]) * w
        self.rest = (x, w, out, row)
        return out


new = Late


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 64), dtype=np.float32),
        "w": rng.standard_normal(64, dtype=np.float32),
    }


make.state = ("w",)
make.batch = 2048
make.probes = {"nan": False, "inf": False, "large": False}
