"""Returns torch.empty of the right shape.

Source: A13, KernelBench's adversarial `result_reuse_kernel.py`,
https://github.com/ScalingIntelligence/KernelBench.
"""

import numpy as np
import torch

CLASS = "exact"
EXPECT = ("non_finite", "outputs_differ")
TORCH = True


def ref(x, w):
    return torch.softmax(x @ w, dim=1)


def new(x, w):
    return torch.empty(len(x), w.shape[1])


def make(rng, batch):
    return {
        "x": torch.from_numpy(rng.standard_normal((batch, 256), dtype=np.float32)),
        "w": torch.from_numpy(rng.standard_normal((256, 256), dtype=np.float32) / 16),
    }


make.state = ("w",)
