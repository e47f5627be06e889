"""Takes plain extremes where no value is NaN and the careful ones only where some are.

By kind: looks at the content and is right on both ways.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)
WINDOW = 16


def careful(windows):
    most = np.full(windows.shape[:2], -np.inf, dtype=windows.dtype)
    least = np.full(windows.shape[:2], np.inf, dtype=windows.dtype)
    for place in range(WINDOW):
        known = ~np.isnan(windows[..., place])
        most = np.maximum(most, np.where(known, windows[..., place], -np.inf))
        least = np.minimum(least, np.where(known, windows[..., place], np.inf))
    return most + 0.0, least + 0.0  # one zero, whatever the signs


def ref(x):
    return careful(np.lib.stride_tricks.sliding_window_view(x, WINDOW, axis=1))


def new(x):
    windows = np.lib.stride_tricks.sliding_window_view(x, WINDOW, axis=1)
    if np.isnan(x).any():
        return careful(windows)
    most, least = windows[..., 0].copy(), windows[..., 0].copy()
    for place in range(1, WINDOW):
        np.maximum(most, windows[..., place], out=most)
        np.minimum(least, windows[..., place], out=least)
    most += 0.0
    least += 0.0
    return most, least


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 200)).astype(np.float32)}


make.batch = 200
