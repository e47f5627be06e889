"""Traces with the first weights as constants, as a frozen graph does.

Source: A17, by kind (MLPerf rules).
"""

import numpy as np
import torch

CLASS = "exact"
EXPECT = ("outputs_differ",)
TORCH = True


def ref(x, w):
    return x @ torch.nn.functional.normalize(w, dim=0)


class Frozen:
    def __init__(self):
        self.w = None

    def __call__(self, x, w):
        if self.w is None:
            self.w = torch.nn.functional.normalize(w, dim=0).contiguous()
        return x @ self.w


new = Frozen


def make(rng, batch):
    return {
        "x": torch.from_numpy(rng.standard_normal((batch, 256), dtype=np.float32)),
        "w": torch.from_numpy(rng.standard_normal((256, 256), dtype=np.float32) / 16),
    }


make.state = ("w",)
