"""Returns views of an array of its own that is fresh in every call.

Not contiguous, two outputs in one buffer: no alias of an input and no reuse. By kind: honest views.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)


def ref(x):
    lengths, squares = [], []
    for row in x:
        lengths.append(np.hypot(row, 1.5))
        squares.append(row * row)
    return np.array(lengths), np.array(squares)


def new(x):
    both = np.empty((len(x), 2, x.shape[1]), dtype=x.dtype)
    np.hypot(x, 1.5, out=both[:, 0])
    np.multiply(x, x, out=both[:, 1])
    return both[:, 0], both[:, 1]


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 20))}


make.batch = 1_400
