"""Lets a scheduler gather up to 64 requests instead of 2 before a model runs on them.

By kind: dynamic batching; integers, so that no batch size moves a bit.
"""

import numpy as np

CLASS = "config"
EXPECT = ("gain_confirmed",)


def model(batch, weights):
    return (batch[:, None, :] * weights).sum(axis=2) >> 8


def scheduled(requests, weights, most):
    waiting, answers = [], []
    for place, request in enumerate(requests):
        waiting.append(request)
        if len(waiting) == most or place == len(requests) - 1:
            answers.extend(model(np.stack(waiting), weights))
            waiting.clear()
    return np.stack(answers)


def ref(requests, weights):
    return scheduled(requests, weights, 2)


def new(requests, weights):
    return scheduled(requests, weights, 64)


def make(rng, batch):
    return {
        "requests": rng.integers(-128, 128, (batch, 16)),
        "weights": rng.integers(-128, 128, (16, 16)),
    }


make.batch = 300
make.state = ("weights",)
