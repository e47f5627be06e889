"""A declared approximation whose complex output is NaN in two columns, which its metric does not read.

Source: a review of this judge, by kind: a dtype that a check of floats leaves out.
"""

import numpy as np

CLASS = "approximate"
EXPECT = ("non_finite",)
MARGIN = 0.02


def ref(x, label):
    return np.stack([np.fft.fft(row)[:8] for row in x])


def new(x, label):
    out = np.fft.fft(x, axis=1)[:, :8].copy()
    out[:, 6:] = np.nan
    return out


def metric(inputs, outputs):
    best = np.abs(next(iter(outputs.values()))[:, 1:5]).argmax(axis=1)
    return float((best == inputs["label"]).mean())


def make(rng, batch):
    x = rng.standard_normal((batch, 64))
    return {"x": x, "label": np.abs(np.fft.fft(x, axis=1)[:, 1:5]).argmax(axis=1)}


make.batch = 300
make.probes = {"nan": False, "inf": False}
