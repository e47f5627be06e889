"""Normalises white space with bytes methods instead of a pattern per string.

By kind: exact rewrite of string features; bytes that are no text stay as they are.
"""

import re

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)


def ref(titles):
    clean = np.empty(len(titles), dtype=object)
    for place, title in enumerate(titles):
        clean[place] = re.sub(rb"\s+", b" ", title).strip(b" ").lower()
    return clean


def new(titles):
    clean = np.empty(len(titles), dtype=object)
    clean[:] = [b" ".join(title.split()).lower() for title in titles]
    return clean


def make(rng, batch):
    alphabet = np.frombuffer(b"aBcDzZ\xc3\x89\xff\x00  \t\n\r\x0b\x0c", dtype=np.uint8)
    titles = [rng.choice(alphabet, int(size)).tobytes() for size in rng.integers(0, 400, batch)]
    return {"titles": np.array([*titles, None], dtype=object)[:-1]}


make.batch = 250
