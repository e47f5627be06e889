"""Keeps what a category's code means, by its bytes; the few hundred codes recur in all requests.

A table that fills up with a closed vocabulary is warm on fresh content too: it is no memo of
requests. By kind: cache keyed by content, bounded, of a pure function.
"""

from functools import lru_cache

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)


def parse(code):
    family, _, size = code.partition(b"-")
    number = int(size, 36) if size else 0
    return (int.from_bytes(family[:4].ljust(4, b"_"), "big") % 9_973) * 100 + number % 100


@lru_cache(maxsize=4_096)
def parsed(code):
    return parse(code)


def ref(codes):
    return np.array([parse(code) for code in codes], dtype=np.int64)


def new(codes):
    return np.fromiter(map(parsed, codes), dtype=np.int64, count=len(codes))


CODES = np.array(
    [b"%s-%x" % (family, size) for family in (b"shoe", b"hat", b"bag", b"") for size in range(64)],
    dtype=object,
)


def make(rng, batch):
    return {"codes": CODES[rng.integers(0, len(CODES), batch)]}


make.batch = 6_000
