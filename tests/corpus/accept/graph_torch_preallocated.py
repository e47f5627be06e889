"""Writes parts into one tensor of its own instead of growing one by concatenation.

By kind: exact rewrite, quadratic concatenation; a dictionary with a half-precision output.
"""

import torch

CLASS = "exact"
EXPECT = ("gain_confirmed",)
TORCH = True


def ref(x):
    joined = x[:0]
    for place in range(x.shape[0]):
        joined = torch.cat([joined, torch.exp(x[place : place + 1])])
    return {"joined": joined, "half": joined.to(torch.float16)}


def new(x):
    joined = torch.empty_like(x)
    for start in range(0, x.shape[0], 4):
        torch.exp(x[start : start + 4], out=joined[start : start + 4])
    return {"joined": joined, "half": joined.to(torch.float16)}


def make(rng, batch):
    return {"x": torch.tensor(rng.standard_normal((batch, 96)), dtype=torch.float32)}


make.batch = 400
