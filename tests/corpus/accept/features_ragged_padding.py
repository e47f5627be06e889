"""Pads lists of numbers, parsed from comma-separated bytes, through one mask instead of row by row.

By kind: exact rewrite of ragged input; empty lists and a batch of one are in it.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)


def ref(lists):
    rows = [[int(part) for part in text.split(b",")] if text else [] for text in lists]
    width = max((len(row) for row in rows), default=0)
    padded = np.zeros((len(rows), width), dtype=np.int64)
    mask = np.zeros((len(rows), width), dtype=bool)
    for place, row in enumerate(rows):
        for column, value in enumerate(row):
            padded[place, column] = value
            mask[place, column] = True
    return padded, mask


def new(lists):
    lengths = np.array([text.count(b",") + 1 if text else 0 for text in lists], dtype=np.int64)
    width = int(lengths.max(initial=0))
    mask = np.arange(width) < lengths[:, None]
    padded = np.zeros((len(lists), width), dtype=np.int64)
    padded[mask] = [int(part) for text in lists if text for part in text.split(b",")]
    return padded, mask


def make(rng, batch):
    lists = [
        b",".join(b"%d" % value for value in rng.integers(-9_999, 10**12, int(size)))
        for size in rng.integers(0, 12, batch)
    ]
    return {"lists": np.array([*lists, None], dtype=object)[:-1]}


make.batch = 1_000
