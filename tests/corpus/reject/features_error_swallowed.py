"""Answers a number where the baseline refuses a value that is not one with an error.

Source: https://github.com/codeflash-ai/codeflash/pull/171 by kind: errors are part of behaviour.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("does_not_raise",)


def ref(prices):
    return np.array([int(price) for price in prices.clip(-1e9, 1e9).tolist()], dtype=np.int64)


def new(prices):
    return np.nan_to_num(prices, posinf=0, neginf=0).clip(-1e9, 1e9).astype(np.int64)


def make(rng, batch):
    return {"prices": rng.lognormal(2, 1, batch)}


make.batch = 8192
