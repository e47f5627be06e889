"""Multiplies in bfloat16 behind float32 tensors.

Source: A31, https://github.com/ScalingIntelligence/KernelBench.
"""

import numpy as np
import torch

CLASS = "reorder"
EXPECT = ("beyond_ten_times",)
TORCH = True


def ref(x, w):
    return torch.softmax(x @ w, dim=1)


def new(x, w):
    product = x.to(torch.bfloat16) @ w.to(torch.bfloat16)
    return torch.softmax(product.to(torch.float32), dim=1)


def make(rng, batch):
    return {
        "x": torch.from_numpy(rng.standard_normal((batch, 256), dtype=np.float32)),
        "w": torch.from_numpy(rng.standard_normal((256, 256), dtype=np.float32) / 16),
    }


make.state = ("w",)
