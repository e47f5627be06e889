"""Scores with the sixty largest weights of two hundred; an approximation, and declared as one.

Its metric is the share of rows whose best label stays the recorded one. By kind: approximate
change that passes its metric.
"""

import numpy as np

CLASS = "approximate"
EXPECT = ("gain_confirmed",)
MARGIN = 0.02
TERMS = 60


def ref(x, w, label):
    return np.hypot(x, 0.5) * np.sign(x) @ w


def new(x, w, label):
    kept = x[:, :TERMS]
    return np.hypot(kept, 0.5) * np.sign(kept) @ w[:TERMS]


def metric(inputs, outputs):
    best = next(iter(outputs.values())).argmax(axis=1)
    return float((best == inputs["label"]).mean())


def make(rng, batch):
    x = rng.standard_normal((batch, 200))
    w = rng.standard_normal((200, 5)) * 0.9 ** np.arange(200)[:, None]
    return {"x": x, "w": w, "label": (x @ w).argmax(axis=1)}


make.batch = 300
