"""Scores with the fifty largest weights of two hundred and ten others, drawn anew in every call.

Its metric is the share of rows whose best label stays the recorded one. By kind: approximate change
that is no function of its inputs alone.
"""

import numpy as np

CLASS = "approximate"
EXPECT = ("gain_confirmed",)
MARGIN = 0.02
RNG = np.random.default_rng()


def ref(x, w, label):
    return np.hypot(x, 0.5) * np.sign(x) @ w


def new(x, w, label):
    terms = np.concatenate([np.arange(50), 50 + RNG.permutation(150)[:10]])
    kept = x[:, terms]
    return np.hypot(kept, 0.5) * np.sign(kept) @ w[terms]


def metric(inputs, outputs):
    best = next(iter(outputs.values())).argmax(axis=1)
    return float((best == inputs["label"]).mean())


def make(rng, batch):
    x = rng.standard_normal((batch, 200))
    w = rng.standard_normal((200, 5)) * 0.9 ** np.arange(200)[:, None]
    return {"x": x, "w": w, "label": (x @ w).argmax(axis=1)}


make.batch = 300
