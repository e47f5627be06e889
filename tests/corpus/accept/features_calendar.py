"""Takes calendar fields from seconds by integer division instead of a date object per row.

By kind: exact rewrite; dictionary of integer outputs, times before 1970 included.
"""

from datetime import UTC, datetime, timedelta

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def named(rows):
    table = np.array(rows, dtype=np.int32).reshape(-1, 3)
    return {"hour": table[:, 0], "weekday": table[:, 1], "quarter": table[:, 2]}


def ref(seconds):
    rows = []
    for second in seconds.tolist():
        moment = EPOCH + timedelta(seconds=second)
        rows.append((moment.hour, moment.weekday(), moment.minute // 15))
    return named(rows)


def new(seconds):
    rows = []
    for second in seconds.tolist():
        day, rest = divmod(second, 86_400)
        rows.append((rest // 3_600, (day + 3) % 7, rest % 3_600 // 900))  # day 0 was a Thursday
    return named(rows)


def make(rng, batch):
    return {"seconds": rng.integers(-2_000_000_000, 4_000_000_000, batch)}


make.batch = 3_000
