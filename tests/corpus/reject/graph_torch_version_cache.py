"""Keeps results by the tensor's address and version counter.

Both repeat when memory is recycled. Source: A02, https://github.com/gpu-mode/kernelbot/issues/501.
"""

import numpy as np
import torch

CLASS = "exact"
EXPECT = ("outputs_differ",)
TORCH = True


def ref(x, w):
    return torch.softmax(x @ w, dim=1)


class Cached:
    def __init__(self):
        self.known = {}

    def __call__(self, x, w):
        key = (x.data_ptr(), x._version, x.shape)
        if key not in self.known:
            self.known[key] = (x, ref(x, w))
        return self.known[key][1].clone()


new = Cached


def make(rng, batch):
    return {
        "x": torch.from_numpy(rng.standard_normal((batch, 256), dtype=np.float32)),
        "w": torch.from_numpy(rng.standard_normal((256, 256), dtype=np.float32) / 16),
    }


make.state = ("w",)
