"""Raises the number of rows that one look-up of a remote table may fetch from 8 to 512.

By kind: a limit in a configuration; rows stay in their order.
"""

import numpy as np

CLASS = "config"
EXPECT = ("gain_confirmed",)


def fetch(rows, ids):
    order = np.argsort(ids, kind="stable")
    answer = np.empty((len(ids), rows.shape[1]), dtype=rows.dtype)
    answer[order] = rows[ids[order]]
    return answer


def served(rows, ids, limit):
    return np.concatenate([fetch(rows, ids[at : at + limit]) for at in range(0, len(ids), limit)])


def ref(rows, ids):
    return served(rows, ids, 8)


def new(rows, ids):
    return served(rows, ids, 512)


def make(rng, batch):
    return {
        "rows": rng.integers(0, 100, (900, 3), dtype=np.int32),
        "ids": rng.integers(0, 900, batch),
    }


make.batch = 8_000
make.state = ("rows",)
