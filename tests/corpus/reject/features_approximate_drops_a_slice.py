"""A declared approximation that keeps two of 128 inputs: the metric falls below its margin.

Source: A81, https://github.com/AMD-AGI/Hyperloom/issues/1433.
"""

import numpy as np

CLASS = "approximate"
EXPECT = ("metric_worse",)
MARGIN = 0.02


def ref(x, w):
    return 1 / (
        1
        + np.exp(-(np.maximum(x @ w[:, :-1], 0) @ w[0, :-1] * np.float32(0.01)).astype(np.float64))
    )


def new(x, w):
    score = np.maximum(x[:, :2] @ w[:2, :-1], 0) @ w[0, :-1] * np.float32(0.01)
    return 1 / (1 + np.exp(-score.astype(np.float64)))


def metric(inputs, outputs):
    x, w = inputs["x"].astype(np.float64), inputs["w"].astype(np.float64)
    truth = np.maximum(x @ w[:, :-1], 0) @ w[0, :-1]
    picked = np.argsort(next(iter(outputs.values())))[-16:]
    return float((truth[:, None] < truth[picked]).mean())


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 128), dtype=np.float32) / 16,
        "w": rng.standard_normal((128, 129), dtype=np.float32) / 8,
    }


make.state = ("w",)
make.probes = {"nan": False, "inf": False, "large": False}
