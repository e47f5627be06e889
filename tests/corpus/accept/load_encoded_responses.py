"""Encodes all responses of a batch from two buffers instead of value by value.

By kind: handler of many requests, one stream of bytes with NUL bytes and NaN payloads in it.
"""

import struct

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)


def ref(scores, ids):
    stream = []
    for place in range(len(ids)):
        body = struct.pack("<q", int(ids[place]))
        for score in scores[place]:
            body += score.tobytes()
        stream.append(struct.pack("<I", len(body)) + body)
    return b"".join(stream)


def new(scores, ids):
    heads, bodies = ids.astype("<i8").tobytes(), scores.astype("<f4").tobytes()
    size = scores.shape[1] * 4
    length = struct.pack("<I", size + 8)
    return b"".join(
        [
            length + heads[8 * place : 8 * place + 8] + bodies[size * place : size * (place + 1)]
            for place in range(len(ids))
        ]
    )


def make(rng, batch):
    return {
        "scores": rng.standard_normal((batch, 6)).astype(np.float32),
        "ids": rng.integers(-(1 << 40), 1 << 40, batch),
    }


make.batch = 1_200
