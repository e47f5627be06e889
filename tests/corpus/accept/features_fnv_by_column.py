"""FNV-1a over all strings at once, byte position by byte position, instead of byte by byte.

Strings hold NUL bytes and may be empty; lengths, not padding, say where they end. By kind: exact
rewrite with wrap-around of unsigned integers.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)
OFFSET, PRIME = 0xCBF29CE484222325, 0x100000001B3


def ref(keys):
    hashes = []
    for key in keys:
        state = OFFSET
        for byte in key:
            state = ((state ^ byte) * PRIME) & 0xFFFFFFFFFFFFFFFF
        hashes.append(state)
    return np.array(hashes, dtype=np.uint64)


def new(keys):
    lengths = np.fromiter(map(len, keys), dtype=np.int64, count=len(keys))
    width = int(lengths.max(initial=0))
    padded = b"".join([key.ljust(width, b"\0") for key in keys])
    columns = np.frombuffer(padded, dtype=np.uint8).reshape(len(keys), width)
    state = np.full(len(keys), OFFSET, dtype=np.uint64)
    for place in range(width):
        mixed = (state ^ columns[:, place]) * np.uint64(PRIME)
        state = np.where(place < lengths, mixed, state)
    return state


def make(rng, batch):
    keys = [
        rng.integers(0, 4, int(size), dtype=np.uint8).tobytes()
        for size in rng.integers(0, 17, batch)
    ]
    return {"keys": np.array([*keys, None], dtype=object)[:-1]}


make.batch = 2_048
