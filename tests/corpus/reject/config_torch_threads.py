"""Takes more threads than the baseline has.

Source: A47 by kind: another share of the machine is no gain.
"""

import numpy as np
import torch

CLASS = "exact"
EXPECT = ("global_state_changed",)
TORCH = True


def ref(x, w):
    return torch.softmax(x @ w, dim=1)


class Configured:
    def __init__(self):
        torch.set_num_threads(8)

    def __call__(self, x, w):
        return ref(x, w)


new = Configured


def make(rng, batch):
    return {
        "x": torch.from_numpy(rng.standard_normal((batch, 256), dtype=np.float32)),
        "w": torch.from_numpy(rng.standard_normal((256, 256), dtype=np.float32) / 16),
    }


make.state = ("w",)
