"""A declared approximation that is not finite for rows with a large first value.

Source: by kind: non-finite outputs fail in every class.
"""

import numpy as np

CLASS = "approximate"
EXPECT = ("non_finite",)
MARGIN = 0.01


def ref(x, w):
    return 1 / (
        1
        + np.exp(-(np.maximum(x @ w[:, :-1], 0) @ w[0, :-1] * np.float32(0.01)).astype(np.float64))
    )


def new(x, w):
    score = np.maximum(x @ w[:, :-1], 0) @ w[0, :-1] * np.float32(0.01)
    out = 1 / (1 + np.exp(-score.astype(np.float64)))
    out[x[:, 0] > 0.2] = np.nan
    return out


def metric(inputs, outputs):
    x, w = inputs["x"].astype(np.float64), inputs["w"].astype(np.float64)
    truth = np.maximum(x @ w[:, :-1], 0) @ w[0, :-1]
    picked = int(np.argmax(next(iter(outputs.values()))))
    return float((truth < truth[picked]).mean())


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 128), dtype=np.float32) / 16,
        "w": rng.standard_normal((128, 129), dtype=np.float32) / 8,
    }


make.state = ("w",)
make.probes = {"nan": False, "inf": False, "large": False}
