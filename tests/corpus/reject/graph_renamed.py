"""Renames and regroups, and changes nothing that takes time.

Source: A73 by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("slower", "below_noise_floor", "boundary_out_of_reach", "last_look_reached")


def ref(x):
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + np.float32(1e-5))


class Normalised:
    epsilon = np.float32(1e-5)

    def __call__(self, x):
        shifted = x - x.mean(axis=1, keepdims=True)
        power = (shifted * shifted).mean(axis=1, keepdims=True)
        return shifted / np.sqrt(power + self.epsilon)


new = Normalised


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 1024), dtype=np.float32)}
