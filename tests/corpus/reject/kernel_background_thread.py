"""Returns an unfinished array; a thread fills it in after the clock has stopped.

Source: A40, by kind (thread injection).
"""

import threading

import numpy as np

CLASS = "exact"
EXPECT = ("starts_threads", "outputs_differ")


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


def new(x, w, b):
    out = np.zeros((len(x), w.shape[1]), dtype=np.float32)

    def work():
        out[:] = ref(x, w, b)

    threading.Thread(target=work).start()
    return out


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
