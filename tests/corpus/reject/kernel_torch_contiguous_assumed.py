"""Reads a tensor's storage as if it were contiguous.

Source: a review of this judge, by kind: layouts that a check never makes.
"""

import torch

CLASS = "exact"
EXPECT = ("outputs_differ",)
TORCH = True


def step(x):
    return torch.clamp(x * 3 + 1, -60, 60) * 0.5 - 1


def ref(x):
    return torch.stack([step(row).amax() for row in x])


def new(x):
    return step(torch.as_strided(x, x.shape, (x.shape[1], 1))).amax(dim=1)


def make(rng, batch):
    return {"x": torch.tensor(rng.standard_normal((batch, 256)), dtype=torch.float32)}


make.batch = 200
