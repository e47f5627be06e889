"""Returns the identifiers that it was given beside the features, as the reference does.

An output that is an input object is an alias, but it is the reference's own and no defect of the
candidate. By kind: aliasing that both have; tuple of outputs.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)
DIGITS = b"0123456789"


def ref(ids, text):
    digits = np.zeros(len(ids), dtype=np.int32)
    for place, item in enumerate(text):
        digits[place] = sum(1 for byte in item if byte in DIGITS)
    return ids, digits


def new(ids, text):
    digits = [len(item) - len(item.translate(None, DIGITS)) for item in text.tolist()]
    return ids, np.array(digits, dtype=np.int32)


def make(rng, batch):
    text = [
        rng.integers(32, 96, int(size), dtype=np.uint8).tobytes()
        for size in rng.integers(0, 12, batch)
    ]
    return {
        "ids": rng.integers(0, 1 << 60, batch),
        "text": np.array([*text, None], dtype=object)[:-1],
    }


make.batch = 3_000
