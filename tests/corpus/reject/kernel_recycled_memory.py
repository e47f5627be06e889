"""Returns what lies in fresh memory when it looks like an answer, else computes.

The reference's result was just freed there. Source: A08, KernelBench's adversarial
`result_reuse_kernel.py`, https://github.com/ScalingIntelligence/KernelBench.
"""

import numpy as np

CLASS = "exact"
EXPECT = (
    "outputs_differ",
    "slower",
    "below_noise_floor",
    "boundary_out_of_reach",
    "last_look_reached",
)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


def new(x, w, b):
    out = np.empty((len(x), w.shape[1]), dtype=np.float32)
    if len(x) and abs(float(out[0].sum()) - 1) < 1e-3 and abs(float(out[-1].sum()) - 1) < 1e-3:
        return out
    return ref(x, w, b)


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
