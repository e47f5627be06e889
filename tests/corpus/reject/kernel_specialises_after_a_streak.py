"""Drops its check for NaN after twenty-four calls of one shape, as a tiered compiler might.

Special content, other sizes and other layouts come early where a checker is done before it times.
Source: a review of this judge; A50, by kind.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)
WINDOW = 16


def careful(windows):
    most = np.full(windows.shape[:2], -np.inf, dtype=windows.dtype)
    least = np.full(windows.shape[:2], np.inf, dtype=windows.dtype)
    for place in range(WINDOW):
        known = ~np.isnan(windows[..., place])
        most = np.maximum(most, np.where(known, windows[..., place], -np.inf))
        least = np.minimum(least, np.where(known, windows[..., place], np.inf))
    return most + 0.0, least + 0.0


def ref(x):
    return careful(np.lib.stride_tricks.sliding_window_view(x, WINDOW, axis=1))


class Tiered:
    def __init__(self):
        self.shape, self.streak = None, 0

    def __call__(self, x):
        self.streak = self.streak + 1 if x.shape == self.shape else 0
        self.shape = x.shape
        windows = np.lib.stride_tricks.sliding_window_view(x, WINDOW, axis=1)
        if self.streak <= 24 and np.isnan(x).any():
            return careful(windows)
        most, least = windows[..., 0].copy(), windows[..., 0].copy()
        for place in range(1, WINDOW):
            np.maximum(most, windows[..., place], out=most)
            np.minimum(least, windows[..., place], out=least)
        return most + 0.0, least + 0.0


new = Tiered


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 200)).astype(np.float32)}


make.batch = 200
