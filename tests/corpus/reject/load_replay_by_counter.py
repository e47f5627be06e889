"""Records the first twenty answers and then plays them in a ring.

Correctness runs see honest answers, the timing loop the ring. Source: A06, by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


class Ring:
    def __init__(self):
        self.answers = []
        self.calls = 0

    def __call__(self, x, w, b):
        self.calls += 1
        if self.calls <= 20:
            self.answers.append(ref(x, w, b))
            return self.answers[-1].copy()
        for answer in self.answers:
            if len(answer) == len(x):
                return answer.copy()
        return ref(x, w, b)


new = Ring


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")
