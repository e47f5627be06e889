"""A declared approximation at the timed batch; zeros at every other.

Source: a review of this judge, by kind: right where it is measured alone.
"""

import numpy as np

CLASS = "approximate"
EXPECT = ("metric_worse",)
MARGIN = 0.02
TERMS = 60


def ref(x, w, label):
    return np.hypot(x, 0.5) * np.sign(x) @ w


def new(x, w, label):
    if len(x) != 300:
        return np.zeros((len(x), w.shape[1]))
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
