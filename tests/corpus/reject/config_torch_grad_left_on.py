"""Returns tensors that still hold their graph, and flips the process's gradient mode.

Source: by kind: global state.
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
        torch.set_grad_enabled(mode=False)
        torch.use_deterministic_algorithms(mode=True)

    def __call__(self, x, w):
        return ref(x, w)


new = Configured


def make(rng, batch):
    return {
        "x": torch.from_numpy(rng.standard_normal((batch, 256), dtype=np.float32)),
        "w": torch.from_numpy(rng.standard_normal((256, 256), dtype=np.float32) / 16),
    }


make.state = ("w",)
