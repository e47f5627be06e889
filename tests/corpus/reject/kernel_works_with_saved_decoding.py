"""Has the caller decode inputs without a copy, and works for as long before the clock starts.

What lies outside the clock may cost what the reference's does: what is saved there pays for work.
The name of the argument has ten letters, so that the uncopied array is aligned.
Source: a review of this judge, by kind: savings in the harness spent on work.
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
ROWS, WIDTH, EARLY = 1024, 1024, 400


def ref(activation):
    return np.abs(activation).max(axis=1)


def frames():
    frame = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


class Early:
    def __init__(self):
        self.done, self.hooked = None, False
        codec = next((f.f_globals["codec"] for f in frames() if "codec" in f.f_globals), None)
        copied = getattr(codec, "_array", None)
        if copied is None:
            return

        def uncopied(dtype, shape, count, blob):
            number = codec.TORCH.get(dtype, dtype)
            if dtype == "O" or not count:
                return copied(dtype, shape, count, blob)
            return np.ndarray(shape, number, buffer=blob)

        codec._array = uncopied

    def hook(self):
        self.hooked = True
        owners = [f.f_locals.get("self") for f in frames()]
        inputs = next((owner._inputs for owner in owners if hasattr(owner, "_inputs")), None)
        if inputs is None:
            return
        put = inputs.put

        def early(tree, how):
            put(tree, how)
            x = inputs.arguments.get("activation")
            self.done = None
            if x is not None and x.shape == (ROWS, WIDTH):
                self.done = x, ref(x[:EARLY])

        inputs.put = early

    def __call__(self, activation):
        if not self.hooked:
            self.hook()
        done, self.done = self.done, None
        if done is None or done[0] is not activation:
            return ref(activation)
        return np.concatenate([done[1], ref(activation[EARLY:])])


new = Early


def make(rng, batch):
    return {"activation": rng.standard_normal((batch, WIDTH), dtype=np.float32)}


make.batch = ROWS
