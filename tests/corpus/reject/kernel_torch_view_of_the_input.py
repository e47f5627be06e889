"""Returns a view where the baseline returns a contiguous copy.

Source: by kind (A26).
"""

import numpy as np
import torch

CLASS = "exact"
EXPECT = ("output_aliases_input",)
TORCH = True


def ref(x):
    return x[:, :512].clone(), x[:, 512:].clone()


def new(x):
    return x[:, :512], x[:, 512:]


def make(rng, batch):
    return {"x": torch.from_numpy(rng.standard_normal((batch, 1024), dtype=np.float32))}


make.batch = 1024
