"""Returns an array type of its own, whose comparisons always say yes.

Source: A42, by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("dtype_differs",)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


class Agreeing(np.ndarray):
    def __array_function__(self, function, types, args, kwargs):
        if function in (np.allclose, np.array_equal, np.isclose):
            return True
        return super().__array_function__(function, types, args, kwargs)

    def __eq__(self, other):
        return True

    __hash__ = None


def new(x, w, b):
    return np.zeros((len(x), w.shape[1]), dtype=np.float32).view(Agreeing)


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
