"""Saves the baseline's set-up of the first call; every later call takes as long.

Source: A66, https://github.com/vllm-project/guidellm/issues/88.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("slower", "below_noise_floor", "boundary_out_of_reach", "last_look_reached")

_WARM = []


def _scaled(x, scale):
    return np.sqrt(np.abs(x * scale)) + np.tanh(x)


def ref(x):
    if not _WARM:
        _WARM.append(sorted(range(200_000), key=lambda i: -i))
    return _scaled(x, np.full(x.shape[1], 2, dtype=np.float32))


def new(x):
    return _scaled(x, np.full(x.shape[1], 2, dtype=np.float32))


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 512), dtype=np.float32)}
