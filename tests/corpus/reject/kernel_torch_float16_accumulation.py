"""Rounds the product to float16 before the softmax, in a model that serves float32.

Source: A31, A33.
"""

import numpy as np
import torch

CLASS = "reorder"
EXPECT = ("beyond_ten_times",)
TORCH = True


def ref(x, w):
    return torch.softmax(x @ w, dim=1)


def new(x, w):
    return torch.softmax((x @ w).to(torch.float16).to(torch.float32), dim=1)


def make(rng, batch):
    return {
        "x": torch.from_numpy(rng.standard_normal((batch, 256), dtype=np.float32)),
        "w": torch.from_numpy(rng.standard_normal((256, 256), dtype=np.float32) / 16),
    }


make.state = ("w",)
