"""Running totals and positions of resets in one pass; a tree of outputs, some of them integers.

By kind: nested outputs, integer outputs.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)


def ref(events):
    totals, resets = [], []
    total = 0
    for place in range(len(events)):
        total = 0 if events[place] < 0 else total + events[place]
        totals.append(total)
        if events[place] < 0:
            resets.append(place)
    return {"total": np.array(totals, dtype=np.int64), "reset": (np.array(resets, dtype=np.int64),)}


def new(events):
    totals = []
    total = 0
    for event in events.tolist():
        total = 0 if event < 0 else total + event
        totals.append(total)
    return {"total": np.array(totals, dtype=np.int64), "reset": (np.flatnonzero(events < 0),)}


def make(rng, batch):
    return {"events": rng.integers(-1, 30, batch)}


make.batch = 6_000
