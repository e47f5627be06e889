"""Attention by the library's operator instead of by a loop over requests and heads.

By kind: operators of a graph replaced by a fused one.
"""

import torch
from torch.nn import functional

CLASS = "reorder"
EXPECT = ("gain_confirmed",)
TORCH = True


def ref(query, key, value):
    heads = []
    for request in query:
        for q, k, v in zip(request, key, value, strict=True):
            weights = torch.softmax(q @ k.T / q.shape[-1] ** 0.5, dim=-1)
            heads.append(weights @ v)
    return torch.stack(heads).reshape(query.shape)


def new(query, key, value):
    shape = (query.shape[0], *key.shape)
    return functional.scaled_dot_product_attention(query, key.expand(shape), value.expand(shape))


def make(rng, batch):
    shapes = {"query": (batch, 4, 16, 16), "key": (4, 96, 16), "value": (4, 96, 16)}
    return {
        name: torch.tensor(rng.standard_normal(shape), dtype=torch.float32)
        for name, shape in shapes.items()
    }


make.batch = 32
make.state = ("key", "value")
