"""Hashes strings into buckets in one pass instead of appending to a growing array.

By kind: exact rewrite, quadratic append replaced by one allocation.
"""

from hashlib import blake2b

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)
BUCKETS = 1_000_003


def ref(names):
    buckets = np.empty(0, dtype=np.int64)
    for name in names:
        digest = blake2b(name, digest_size=8).digest()
        buckets = np.append(buckets, int.from_bytes(digest, "little") % BUCKETS)
    return buckets


def new(names):
    digests = b"".join([blake2b(name, digest_size=8).digest() for name in names])
    return (np.frombuffer(digests, dtype="<u8") % np.uint64(BUCKETS)).astype(np.int64)


def make(rng, batch):
    names = [rng.bytes(int(size)) for size in rng.integers(0, 24, batch)]
    return {"names": np.array([*names, None], dtype=object)[:-1]}


make.batch = 800
